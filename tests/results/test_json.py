"""Result files that are not what they should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdag._base.errors import InputError
from diffdag.result import load
from diffdag.results import json as exchange

EDGE = {
    "source": "Raf",
    "target": "Mek",
    "directed": True,
    "change": "added",
    "weight_first": 0,
    "weight_second": 1,
}
EDGE |= {"delta": -1, "stderr": None, "confidence": None}
MATRIX = {"symmetric": True, "row": [0], "column": [1], "value": [0.5]}
CONTENT: dict[str, Any] = {
    "schema": 2, "diffdag": "0.2.0", "method": "paper", "labels": ["first", "second"],
    "samples": {"first": 10, "second": 20}, "variables": ["Raf", "Mek", "Erk"], "invariant": ["Erk"],
    "unresolved": [], "order": [["Raf"], ["Mek"]], "settings": {}, "notes": [], "edges": [EDGE],
    "delta_precision": MATRIX,
}  # fmt: skip


def edited(**changes: Any) -> str:
    """The JSON of the example with some keys replaced, or left out where the value is `...`."""
    return json.dumps({key: value for key, value in (CONTENT | changes).items() if value is not ...})


class TestBadFiles:
    def test_the_example_itself_is_good(self) -> None:
        result = exchange.from_json(edited(), "memory")
        assert result.delta_precision.loc["Mek", "Raf"] == 0.5
        assert str(result.edge_list[0]) == "Raf -> Mek"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "is not JSON"),
            ("{", r"is not JSON \(line 1\)"),
            ("[" * 100_000, "is not JSON"),
            ("[1]", "not a diffdag result"),
            ("{}", "not a diffdag result"),
            (edited(schema=3), "schema 3"),
            (edited(schema=1), "was written by diffdag 0.1; fit again"),
            (edited(schema=True), "schema True"),
            (edited(schema="2"), "schema '2'"),
            (edited(method=...), "'method' is missing"),
            (edited(method=3), "'method' is 3, expected text"),
            (edited(variables="abc"), "expected a list"),
            (edited(variables=[1, 2]), "an entry of 'variables' is 1, expected text"),
            (edited(variables=["Raf"] * 3), "twice"),
            (edited(order=["Raf"]), "an entry of 'order' is 'Raf', expected a list"),
            (edited(order=[["nobody"]]), "not a variable"),
            (edited(samples={"first": 1}), "'second' is missing"),
            (edited(samples={"first": 1.5, "second": 2}), "whole number"),
            (edited(samples={"first": True, "second": 2}), "whole number"),
            (edited(settings=[]), "an object"),
            (edited(labels=["a"]), "1 entries"),
            (edited(edges=[3]), "an entry of 'edges' is 3, expected an object"),
            (edited(edges=[{}]), "missing"),
            (edited(edges=[EDGE | {"delta": float("nan")}]), "NaN is not a JSON number"),
            (edited(edges=[EDGE | {"delta": "big"}]), "expected a finite number"),
            (edited(edges=[EDGE | {"delta": True}]), "expected a finite number"),
            (edited(edges=[EDGE | {"delta": 10**400}]), "too large"),
            (edited(edges=[EDGE]).replace("-1,", "1e999,"), "finite number"),
            (edited(edges=[EDGE | {"directed": 1}]), "true or false"),
            (edited(edges=[EDGE | {"change": "vanished"}]), "expected one of"),
            (edited(edges=[EDGE | {"target": "nobody"}]), "not a variable"),
            (edited(edges=[EDGE, EDGE]), "twice"),
            (edited(delta_precision=[]), "an object"),
            (edited(delta_precision=MATRIX | {"row": [-1]}), "whole numbers from 0"),
            (edited(delta_precision=MATRIX | {"row": [6]}), "whole numbers from 0"),
            (edited(delta_precision=MATRIX | {"row": [1, 2]}), "different lengths"),
            (edited(delta_precision=MATRIX | {"value": [None]}), "finite number"),
            (edited(delta_precision={"row": []}), "missing"),
        ],
    )
    def test_one_clear_line(self, text: str, message: str, tmp_path: Path) -> None:
        path = tmp_path / "result.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message) as caught:
            load(path)
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)

    def test_missing_and_binary(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file"):
            load(tmp_path / "nowhere.json")
        with pytest.raises(InputError, match="no such file"):
            load(tmp_path)
        (tmp_path / "result.json").write_bytes(b"\x00\xff\xfe junk")
        with pytest.raises(InputError, match="is not JSON"):
            load(tmp_path)

    @given(
        st.recursive(st.one_of(st.none(), st.integers(), st.text()), lambda x: st.lists(x, max_size=2)),
        st.data(),
    )
    @settings(max_examples=200, deadline=None)
    def test_any_replaced_value_is_read_or_refused(self, value: object, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(CONTENT)))
        try:
            exchange.from_json(edited(**{key: value}), "memory")
        except InputError as error:
            message = str(error)
        else:
            message = ""
        assert "\n" not in message


def test_the_short_form_of_the_contract_is_read(tmp_path: Path) -> None:
    short = {
        "schema": 2,
        "diffdag": "0.2.0",
        "method": "order",
        "variables": ["a", "b"],
        "invariant": [],
        "unresolved": [],
        "samples": {"first": 853, "second": 799},
        "settings": {},
        "edges": [
            {
                "source": "a",
                "target": "b",
                "directed": True,
                "change": "added",
                "weight_first": 0.0,
                "weight_second": 0.8,
                "delta": -0.8,
                "stderr": 0.05,
                "confidence": None,
            }
        ],
    }
    path = tmp_path / "result.json"
    path.write_text(json.dumps(short), encoding="utf-8")
    result = load(path)
    assert result.edge_list[0].delta == -0.8
    assert result.labels == ("first", "second")
    assert not result.delta_precision.to_numpy().any()
