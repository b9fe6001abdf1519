"""File types by the endings of their names."""

from __future__ import annotations

from pathlib import Path

from diffdag._base.errors import InputError

TEXT = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".arrow")
ARRAYS = (".npy", ".npz")
CELLS = ".h5ad"
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")


def kind_of(path: Path) -> str:
    """File type by the ending of the name, seen through .gz."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == ".gz" else suffix


def check_file_type(name: str) -> None:
    """Refuse a spreadsheet with what to do instead."""
    if name.lower().endswith(SPREADSHEETS):
        raise InputError(f"'{name}' is a spreadsheet, which is not read; save the sheet as CSV (UTF-8)")
