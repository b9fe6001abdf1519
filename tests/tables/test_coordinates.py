"""Places of brain regions: from files, tables and mappings, with errors that say what is wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from diffdag._base.errors import InputError
from diffdag.tables.readers.coordinates import check_coordinates, read_coordinates

PLACES = {"V1_L": (-8.0, -92.0, 2.0), "007": (8.5, -92.0, 2.0)}


@pytest.mark.parametrize(
    "text",
    [
        "region,x,y,z\nV1_L,-8,-92,2\n007,8.5,-92,2\n",
        "name;lobe;z;y;x\nV1_L;occipital;2;-92;-8\n007;;2;-92;8.5\n",
        "X,Y,Z,Region\n-8,-92,2,V1_L\n8.5,-92,2,007\n",
    ],
)
def test_files(tmp_path, text):
    file = tmp_path / "regions.csv"
    file.write_text(text)
    assert read_coordinates(file) == PLACES
    assert read_coordinates(str(file)) == PLACES


def test_tables_and_mappings():
    table = pd.DataFrame({"region": list(PLACES)}).assign(x=[-8, 8.5], y=-92, z=2, other=["left", "right"])
    assert check_coordinates(table) == PLACES
    assert check_coordinates(table.set_index("region")) == PLACES
    assert check_coordinates(pl.from_pandas(table)) == PLACES
    assert check_coordinates({name: list(place) for name, place in PLACES.items()}) == PLACES


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("region,x,y\na,1,2\n", "'regions.csv' has no column 'z'; it needs region, x, y and z"),
        ("x,y,z\n1,2,3\n", "'regions.csv' has no column 'region'"),
        ("region,x,y,z\na,1,,3\n", "'a' of 'regions.csv' has not three numbers as x, y, z"),
        ("region,x,y,z\na,1,two,3\n", "'a' of 'regions.csv' has not three numbers"),
        ("region,x,y,z\na,1,2,3\na,1,2,4\n", "'a' appears more than once in 'regions.csv'"),
        ("region,x,y,z\n", "no regions|has no rows|is empty"),
    ],
)
def test_unusable_files(tmp_path, text, words):
    file = tmp_path / "regions.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        read_coordinates(file)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": (1, 2)}, "'a' of coordinates has not three numbers"),
        ({"a": 3}, "'a' of coordinates has not three numbers"),
        ({"a": (1, 2, float("inf"))}, "'a' of coordinates has not three numbers"),
        ({}, "coordinates has no regions"),
        ([(1, 2, 3)], "coordinates is of type list; give a table"),
    ],
)
def test_unusable_values(value, words):
    with pytest.raises(InputError, match=words):
        check_coordinates(value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_coordinates(tmp_path / "nowhere.csv")


def test_a_region_without_a_name_and_a_file_that_is_no_table(tmp_path):
    for nameless in ({" ": (1, 2, 3)}, {None: (1, 2, 3)}, {float("nan"): (1, 2, 3)}):
        with pytest.raises(InputError, match="has no name of its region"):
            check_coordinates(nameless)
    anndata = pytest.importorskip("anndata")
    anndata.AnnData(np.ones((2, 2))).write_h5ad(tmp_path / "cells.h5ad")
    with pytest.raises(InputError, match=r"is no table of regions"):
        read_coordinates(tmp_path / "cells.h5ad")
