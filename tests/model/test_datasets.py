from importlib.resources import files

import numpy as np
import pytest

from diffdag._base.errors import InputError
from diffdag.model.datasets import SACHS_CONDITIONS, SACHS_PROTEINS, load_sachs, load_sachs_pair

CELLS = {
    "baseline": 853,
    "icam2": 902,
    "akt-inhibitor": 911,
    "g0076": 723,
    "psitectorigenin": 810,
    "u0126": 799,
    "ly294002": 848,
    "pma": 913,
    "b2camp": 707,
}


def test_every_condition_has_its_cells():
    table = load_sachs()
    assert table.shape == (7466, 12)
    assert tuple(table.columns) == (*SACHS_PROTEINS, "condition")
    assert table["condition"].value_counts(sort=False).to_dict() == CELLS
    assert list(SACHS_CONDITIONS) == list(CELLS)


def test_values_are_those_of_the_source():
    table = load_sachs()
    assert table.iloc[0, :11].tolist() == [26.4, 13.2, 8.82, 18.3, 58.8, 6.61, 17.0, 414.0, 17.0, 44.9, 40.0]
    assert (table[list(SACHS_PROTEINS)] >= 1).all().all()


def test_a_pair_is_log10_of_the_baseline_and_the_condition():
    baseline, other = load_sachs_pair()
    assert baseline.shape == (853, 11)
    assert other.shape == (799, 11)
    assert np.isclose(baseline["Raf"].iloc[0], np.log10(26.4))


@pytest.mark.parametrize("condition", ["baseline", "nothing", ""])
def test_unknown_condition_lists_the_known(condition):
    with pytest.raises(InputError, match=r"choose one of icam2, .*b2camp$"):
        load_sachs_pair(condition)


def test_case_of_the_condition_does_not_matter():
    assert len(load_sachs_pair("U0126")[1]) == CELLS["u0126"]


def test_the_file_is_small_and_carries_no_time():
    data = (files("diffdag.model.datasets") / "sachs.csv.gz").read_bytes()
    assert len(data) < 400_000
    assert data[4:8] == bytes(4)
