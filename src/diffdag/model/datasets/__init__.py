"""The embedded data: protein signalling in single cells under nine conditions.

See ``SOURCE.md`` in this folder for where the numbers come from.
"""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
import pandas as pd

from diffdag._base.errors import InputError
from diffdag.tables.readers.files import read_table

__all__ = ["SACHS_CONDITIONS", "SACHS_PROTEINS", "load_sachs", "load_sachs_pair"]

SACHS_PROTEINS = ("Raf", "Mek", "Plcg", "PIP2", "PIP3", "Erk", "Akt", "PKA", "PKC", "P38", "JNK")

SACHS_CONDITIONS = {
    "baseline": "CD3/CD28",
    "icam2": "+ICAM-2",
    "akt-inhibitor": "+AKT inhibitor (inhibits Akt)",
    "g0076": "+G0076 (inhibits PKC)",
    "psitectorigenin": "+psitectorigenin (inhibits PIP2)",
    "u0126": "+U0126 (inhibits Mek)",
    "ly294002": "+LY294002 (inhibits PI3K)",
    "pma": "PMA (activates PKC)",
    "b2camp": "beta2cAMP (activates PKA)",
}


def load_sachs() -> pd.DataFrame:
    """Load the data of Sachs et al. (2005): 7466 cells, 11 proteins, 9 conditions.

    Returns
    -------
    pandas.DataFrame
        The raw values of the proteins and the column ``condition``, a key of ``SACHS_CONDITIONS``.

    References
    ----------
    Sachs, Perez, Pe'er, Lauffenburger and Nolan, Science 308:523-529, 2005.

    Examples
    --------
    >>> load_sachs().shape
    (7466, 12)
    """
    with as_file(files(__package__) / "sachs.csv.gz") as path:
        frame: pd.DataFrame = read_table(path).to_pandas()
    return frame


def load_sachs_pair(condition: str = "u0126") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Load log10 values of the baseline and of one other condition.

    Parameters
    ----------
    condition : str, default "u0126"
        A key of ``diffdag.model.datasets.SACHS_CONDITIONS`` other than "baseline".

    Returns
    -------
    baseline, other : pandas.DataFrame
        Cells by the 11 proteins.

    See Also
    --------
    diffdag.model.datasets.load_sachs : all conditions.

    Examples
    --------
    >>> baseline, other = load_sachs_pair("u0126")
    >>> baseline.shape, other.shape
    ((853, 11), (799, 11))
    """
    others = [name for name in SACHS_CONDITIONS if name != "baseline"]
    key = str(condition).lower()
    if key not in others:
        raise InputError(
            f"condition '{condition}' cannot be compared with the baseline; choose one of {', '.join(others)}"
        )
    table = load_sachs()
    proteins = list(SACHS_PROTEINS)
    baseline, other = (
        pd.DataFrame(np.log10(table.loc[table["condition"] == name, proteins].to_numpy()), columns=proteins)
        for name in ("baseline", key)
    )
    return baseline, other
