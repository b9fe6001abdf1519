"""How a text file is written, seen in its first lines: delimiter, decimal mark, encoding."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diffdag._base.errors import InputError
from diffdag.tables.readers.endings import kind_of
from diffdag.tables.readers.provenance import open_text

_DELIMITERS = ",;\t|"
_SAMPLE = 1 << 18  # characters looked at
_UTF16 = ("\udcff\udcfe", "\udcfe\udcff")  # its byte order mark, as bytes that are not UTF-8
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_EXPONENT = r"([eE][-+]?\d+)?"
_COMMA, _POINT = (re.compile(rf"[-+]?\d*{mark}\d+{_EXPONENT}") for mark in (",", r"\."))
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+")
_SHORT = re.compile(r"[-+]?\d{1,3}")


@dataclass(frozen=True)
class Header:
    """How a text file is written."""

    delimiter: str  # between fields
    decimal: str  # before decimals
    size: int  # characters of the line with the names


def read_header(path: Path) -> Header:
    """Look at the first lines of a text file; except in TSV, its delimiter is the one the header uses most."""
    with open_text(path) as file:
        number, line = next(((k, text) for k, text in enumerate(file, start=1) if text != "\n"), (1, ""))
        sample = file.read(_SAMPLE)
    if not line.strip():
        raise InputError(f"file '{path}' is empty; check the export")
    _check_encoding(path, [line, *sample.split("\n")], number)
    unquoted = re.sub(r'"[^"]*"', "", line)
    # Of a line of numbers, commas may be the most frequent delimiter and be none.
    if any(_looks_like_data(_fields(line, mark), mark) for mark in _DELIMITERS if mark in unquoted):
        raise InputError(f"file '{path}' starts with numbers; put a header line with the column names first")
    delimiter = "\t" if kind_of(path) == ".tsv" else max(_DELIMITERS, key=unquoted.count)
    decimal = "."
    if delimiter != "," and "," in sample:
        whole = sample if len(sample) < _SAMPLE else sample[: sample.rfind(delimiter) + 1]
        decimal = _decimal_mark(path, _Numbers(whole.split("\n"), delimiter, number + 1))
    return Header(delimiter, decimal, len(line))


def _check_encoding(path: Path, lines: Sequence[str], number: int) -> None:
    """Refuse text that is not UTF-8; `number` is that of the first of these lines."""
    if lines[0].startswith(_UTF16):
        raise InputError(f"file '{path}' is UTF-16 text; save it as CSV (UTF-8)")
    if "\0" in lines[0]:
        raise InputError(f"file '{path}' is not a text table; save it as CSV (UTF-8)")
    for k, line in enumerate(lines, start=number):
        if _NOT_UTF8.search(line):
            words = line.encode("utf-8", "surrogateescape").decode("latin-1")
            odd = next(word for word in re.split(r"[,;\t|\s]", words) if not word.isascii())
            raise InputError(
                f"file '{path}' is not UTF-8 text (perhaps Windows or Latin-1 text: '{odd[:40]}' in line {k}); "
                "save it as CSV (UTF-8)"
            )


def _fields(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _looks_like_data(header: list[str], delimiter: str) -> bool:
    """Tell a row of numbers from names, which may be 0, 1, 2, ... as written from an unnamed array."""
    fields = header[1:] if header[0] == "" else header
    try:
        values = [float(field if delimiter == "," else field.replace(",", ".")) for field in fields]
    except ValueError:
        return False
    counting = any(fields == [str(k + start) for k in range(len(fields))] for start in (0, 1))
    return bool(values) and not (counting and len(fields) > 2)


class _Numbers:
    """The numbers with decimals in some lines, by the way they are written."""

    def __init__(self, lines: Sequence[str], delimiter: str, start: int) -> None:
        self.commas: dict[int, tuple[str, int]] = {}  # of each column the first, and its line
        self.points: dict[int, tuple[str, int]] = {}
        self.sure: set[int] = set()  # columns whose commas cannot separate thousands
        self.short: set[int] = set()  # columns with numbers that have no thousands to separate
        for number, line in enumerate(lines, start):
            for column, field in enumerate(map(str.strip, _fields(line, delimiter))):
                thousands = _THOUSANDS.fullmatch(field)
                if _POINT.fullmatch(field):
                    self.points.setdefault(column, (field, number))
                elif thousands or _COMMA.fullmatch(field):
                    self.commas.setdefault(column, (field, number))
                    if not thousands:
                        self.sure.add(column)
                elif _SHORT.fullmatch(field):
                    self.short.add(column)


def _decimal_mark(path: Path, numbers: _Numbers) -> str:
    """Decide between comma and point, where fields are not separated by commas."""
    if not numbers.commas:
        return "."
    # A column with 1,234 and 999 counts in thousands; one with 1,234 and 0,999 does not, nor one without 999.
    thousands = [entry for column, entry in numbers.commas.items() if column in numbers.short - numbers.sure]
    if thousands:
        field, line = thousands[0]
        raise InputError(
            f"'{field}' in line {line} of '{path}' seems to have a thousands separator; write numbers without"
        )
    if numbers.points:
        (comma, one), (point, two) = next(iter(numbers.commas.values())), next(iter(numbers.points.values()))
        raise InputError(
            f"file '{path}' has decimal commas ('{comma}' in line {one}) and decimal points ('{point}' in line "
            f"{two}); write all numbers the same way"
        )
    return ","
