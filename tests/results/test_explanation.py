"""The records of explanations: files and back, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

import diffdag as dd
from diffdag._base.errors import InputError
from diffdag.results.explanation import Explanation, Explanations, Mechanism, Part
from diffdag.results.json import from_json

NAMES = ("Raf", "Mek", "Erk")
MECHANISMS = (Mechanism("Raf -> Mek", "effect", "Mek", "Raf"), Mechanism("noise of Erk", "noise", "Erk"))
MEK = Explanation("Mek", 1.0, 2.5, 4.0, 5.0, (Part(0, 1.0, 0.5, 1.5, 0.25, 0.0, 0.5, 0.3, 0.3),))


def result(explanations: Explanations | None, method: str = "order", **more: object) -> dd.DifferenceResult:
    return dd.DifferenceResult(
        method=method, variables=NAMES, invariant=(), unresolved=(), order=(), edge_list=(),
        delta_entries=csr_array((3, 3)), samples=(10, 20), settings={}, explanations=explanations, **more,
    )  # fmt: skip


KNOWN = result(
    Explanations(MECHANISMS, (MEK, Explanation("Erk", None, None, 1.0, 2.0, (Part(1, variance=0.9),))))
)


class TestTable:
    def test_parts_and_the_rest(self):
        table = KNOWN.explain("Mek")
        assert list(table["mechanism"]) == ["Raf -> Mek", "noise of Erk", "unexplained"]
        assert list(table["kind"]) == ["effect", "noise", ""]
        assert table["mean"].tolist() == [1.0, 0.0, 0.5]
        assert table["variance"].tolist() == [0.25, 0.0, 0.75]
        assert table.loc[0, ["direct", "total"]].tolist() == [0.3, 0.3]

    def test_means_that_cannot_be_compared_are_unknown(self):
        table = KNOWN.explain("Erk")
        assert table["mean"].isna().all()
        assert table["variance"].sum() == pytest.approx(1.0)


class TestRefused:
    def test_an_unknown_variable_with_the_closest_one(self):
        with pytest.raises(InputError, match=r"target= names 'Mekk', .* did you mean 'Mek'\?$"):
            KNOWN.explain("Mekk")
        with pytest.raises(InputError, match=r"the variables are 'Mek' and 'Erk'$"):
            KNOWN.explain("something else")

    def test_a_variable_that_was_not_looked_at(self):
        with pytest.raises(InputError, match=r"^'Raf' was not looked at"):
            KNOWN.explain("Raf")

    def test_another_method(self):
        with pytest.raises(InputError, match=r"only method='order' has; fit again with it$"):
            result(None, "paper").explain("Mek")
        tables = (np.random.default_rng(k).normal(size=(60, 3)) for k in (1, 2))
        fitted = dd.DifferenceDAG(method="paper").fit(*tables).result_
        with pytest.raises(InputError, match="method='order'"):
            fitted.explain("X1")

    def test_a_file_that_does_not_say(self):
        with pytest.raises(InputError, match=r"look at the variables that changed themselves, in nodes"):
            result(None).explain("Mek")


class TestFiles:
    def test_what_is_written_is_read_back(self):
        again = from_json(KNOWN.to_json(), "memory")
        assert again == KNOWN
        assert again.explanations == KNOWN.explanations

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"mechanisms": [{"name": "a", "kind": "wish", "variable": "Mek"}]}, "a mechanism is 'wish'"),
            ({"mechanisms": [{"name": "a", "kind": "noise", "variable": "Akt"}], "targets": []}, "names 'Akt'"),
            ({"targets": [{"variable": "Akt"}]}, "names 'Akt', which is not a variable"),
            ({"targets": [{"variable": "Mek"}, {"variable": "Mek"}]}, "names a variable twice"),
            ({"targets": [{"variable": "Mek", "parts": [{"mechanism": 7}]}]}, "parts of 'Mek' are not those"),
            ({"targets": [{"variable": "Mek", "parts": [{"mechanism": -1}]}]}, "parts of 'Mek' are not those"),
            (
                {"targets": [{"variable": "Mek", "parts": [{"mechanism": 0.5}]}]},
                "'mechanism' is 0.5, expected a whole",
            ),
            (
                {"targets": [{"variable": "Mek", "mean_first": "x"}]},
                "'mean_first' is 'x', expected a finite number",
            ),
            ({"targets": 3}, "'targets' is 3, expected a list"),
            ({"at_zero": ["Akt"]}, "names 'Akt'"),
        ],
    )
    def test_what_is_not_one_is_refused(self, change, message):
        content = json.loads(KNOWN.to_json())
        content["explanations"] |= change
        with pytest.raises(InputError, match=message):
            from_json(json.dumps(content), "memory")
