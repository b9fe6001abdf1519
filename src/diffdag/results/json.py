"""Results as JSON and CSV, and back from JSON.

The JSON is strict (no NaN, no Infinity) and carries a schema number. Keys and types are those of the fields of
`Difference` and its records, under the names in `KEYS`; a key may be left out where the field has a default.
The difference of the precision matrices is stored by its non-zero entries, as three parallel lists of rows,
columns and values, where rows and columns count the variables from 0; of a symmetric matrix only row <= column
is stored. ``nodes`` is for whoever reads the file: it follows from the rest, and is not read back.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from importlib.metadata import version
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from scipy.sparse import csr_array, diags_array, triu

from diffdag._base.errors import InputError
from diffdag.results.difference import Difference, same_entries
from diffdag.results.differences import Differences
from diffdag.results.records import join_listed

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 2
# Fields that have another name in files, where nothing tells them from tables.
KEYS = {
    "edge_list": "edges",
    "gain_list": "changed_gain",
    "noise_list": "changed_noise",
    "mean_list": "changed_mean",
    "switch_list": "switched",
    "delta_entries": "delta_precision",
}
EXPECTED: dict[Any, str] = {
    str: "text",
    list: "a list",
    dict: "an object",
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
}
REMEDY = "give the result.json or conditions.json that diffdag wrote"

# What a file may leave out although the fields have no default.
LEFT_OUT = {"order": [], "delta_precision": {"symmetric": True, "row": [], "column": [], "value": []}}

DEEPEST = 50  # levels of settings

Json = dict[str, Any]
T = TypeVar("T")
_hints = cache(get_type_hints)


def to_json(result: Difference | Differences) -> str:
    """Return the whole result as strict JSON, one top-level key per line; `diffdag.load` reads it back."""
    content = {KEYS.get(field.name, field.name): getattr(result, field.name) for field in fields(result)}
    content = {"schema": SCHEMA, "diffdag": version("diffdag"), **content}
    if isinstance(result, Difference):
        content["samples"] = result.samples and dict(zip(("first", "second"), result.samples, strict=True))
        content["nodes"] = result.node_list
        del content["delta_precision"]  # the longest comes last
        lines = [*_lines(content), f'"delta_precision": {_dump(_sparse(result.delta_entries))}']
    else:
        pairs = ",\n".join(
            f'{{"first": {_dump(first)}, "second": {_dump(second)}, "result":\n{to_json(one).rstrip()}}}'
            for (first, second), one in content.pop("pairs").items()
        )
        lines = [*_lines(content), f'"comparisons": [\n{pairs}]']
    return "{" + ",\n ".join(lines) + "}\n"


def _lines(content: Json) -> list[str]:
    return [f"{_dump(key)}: {_dump(value)}" for key, value in content.items()]


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=asdict)


def _sparse(matrix: csr_array) -> Json:
    symmetric = same_entries(matrix, csr_array(matrix.T))
    entries = (triu(matrix) if symmetric else matrix).tocsr().tocoo()
    return {
        "symmetric": symmetric,
        "row": entries.row.tolist(),
        "column": entries.col.tolist(),
        "value": entries.data.tolist(),
    }


def to_csv(result: Difference | Differences, table: pd.DataFrame | None = None) -> str:
    """Return the edges, or another table of a result, as CSV; unknown numbers are empty."""
    names = result.variables if isinstance(result, Difference) else (*result.variables, *result.conditions)
    quoting = _quoting(names)
    if table is None:
        edges = result.edges
        edges["stand_ins"] = [join_listed(names) for names in edges["stand_ins"]]
        return edges.to_csv(index=False, lineterminator="\n", quoting=quoting)
    return table.to_csv(index_label="edge", lineterminator="\n", quoting=quoting)


def nodes_to_csv(result: Difference) -> str:
    """Return what changed of each variable as CSV; unknown numbers are empty."""
    nodes = result.nodes
    nodes["effects"] = [join_listed(names) for names in nodes["effects"]]
    quoting = _quoting([*nodes["variable"], *nodes["note"]])
    return nodes.to_csv(index=False, lineterminator="\n", quoting=quoting)


def _quoting(names: Iterable[str]) -> Literal[0, 2]:
    """How to quote these names.

    The csv module leaves a lone carriage return unquoted, and readers take it for the end of a line.
    """
    return csv.QUOTE_NONNUMERIC if any("\r" in name for name in names) else csv.QUOTE_MINIMAL


def from_json(text: str | bytes, name: str) -> Difference | Differences:
    """Check and read what `to_json` wrote; `name` says in messages where the text came from."""
    reader = _Reader(name)
    try:
        content = reader.parse(text)
        return reader.several(content) if "comparisons" in content else reader.difference(content)
    except InputError:
        raise
    except (ValueError, OverflowError) as error:  # the parts do not fit together
        raise InputError(f"result file {name!r}: {error}; save the result again") from None


class _Reader:
    """Takes checked values out of a parsed result file; the first fault ends the reading."""

    def __init__(self, name: str) -> None:
        self.name = name

    def fail(self, what: str, remedy: str = "save the result again with diffdag") -> NoReturn:
        raise InputError(f"result file {self.name!r}: {what}; {remedy}")

    def parse(self, text: str | bytes) -> Json:
        try:
            decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
            content = json.loads(decoded, parse_constant=lambda word: self.fail(f"{word} is not a JSON number"))
            if "\\ud" in decoded.lower():  # which may be half a character, that no file of ours can hold
                _dump(content).encode("utf-8")
        except InputError:
            raise
        except UnicodeEncodeError:
            self.fail("holds text that is not valid", REMEDY)
        except (ValueError, RecursionError) as error:
            where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
            self.fail(f"is not JSON{where}", REMEDY)
        if not isinstance(content, dict) or "schema" not in content:
            self.fail("is not a diffdag result", REMEDY)
        return content

    def check_schema(self, content: Json) -> None:
        schema = content.get("schema")
        if schema == 1 and not isinstance(schema, bool):
            self.fail("was written by diffdag 0.1", "fit again")
        if isinstance(schema, bool) or schema != SCHEMA:
            self.fail(f"has schema {schema!r}, this version reads {SCHEMA}", "use the diffdag that wrote it")

    def difference(self, content: Json) -> Difference:
        self.check_schema(content)
        content = LEFT_OUT | content
        names = self.value(self.get(content, "variables"), tuple[str, ...], "'variables'")
        matrix = self.matrix(self.value(content["delta_precision"], dict, "'delta_precision'"), len(names))
        rows = self.get(content, "samples")
        if rows is not None:
            both = self.value(rows, dict, "'samples'")
            rows = [self.get(both, key) for key in ("first", "second")]
        return self.record({**content, "samples": rows, "delta_precision": matrix}, Difference)

    def several(self, content: Json) -> Differences:
        self.check_schema(content)
        pairs = {}
        for item in self.value(content["comparisons"], list[dict[str, object]], "'comparisons'"):
            first, second = (self.value(self.get(item, key), str, repr(key)) for key in ("first", "second"))
            pairs[first, second] = self.difference(self.value(self.get(item, "result"), dict, "'result'"))
        return self.record({**content, "pairs": pairs}, Differences)

    def record(self, content: Json, kind: type[T]) -> T:
        """A dataclass whose fields have the types that it says."""
        values, hints = {}, _hints(kind)  # type: ignore[arg-type]
        for field in fields(kind):  # type: ignore[arg-type]
            key = KEYS.get(field.name, field.name)
            if key in content or field.default is MISSING:
                values[field.name] = self.value(self.get(content, key), hints[field.name], repr(key))
        return kind(**values)

    def get(self, content: Json, key: str) -> Any:
        if key not in content:
            self.fail(f"{key!r} is missing")
        return content[key]

    def value(self, given: Any, hint: Any, what: str) -> Any:
        """A value of a type, or the sentence that it is of another."""
        kind, inside = get_origin(hint) or hint, get_args(hint)
        if kind is UnionType:  # or None
            return None if given is None else self.value(given, inside[0], what)
        if kind in (tuple, list) and inside:
            items = self.expect(given, list, what)
            if kind is tuple and inside[-1] is not ... and len(items) != len(inside):
                self.fail(f"{what} has {len(items)} entries, expected {len(inside)}")
            return kind(self.value(item, inside[0], f"an entry of {what}") for item in items)
        if kind in (dict, Mapping):
            found = self.expect(given, dict, what)
            if not inside or inside[1] is object:
                if _deep(found):
                    self.fail(f"{what} has parts in parts, more than {DEEPEST} levels of them", REMEDY)
                return found
            return {key: self.value(item, inside[1], repr(key)) for key, item in found.items()}
        if is_dataclass(kind) and not isinstance(given, kind):  # type: ignore[arg-type]
            return self.record(self.expect(given, dict, what), kind)  # type: ignore[arg-type]
        return self.expect(given, kind, what)

    def expect(self, given: Any, kind: type, what: str) -> Any:
        """A plain value of a type; whole numbers count as numbers, and true and false do not."""
        fits = isinstance(given, (int, float) if kind is float else kind)
        fits = fits and (kind is not float or math.isfinite(given))
        if not fits or isinstance(given, bool) != (kind is bool):
            self.fail(f"{what} is {_short(given)}, expected {EXPECTED[kind]}")
        return float(given) if kind is float else given

    def matrix(self, content: Json, size: int) -> csr_array:
        row, column = (self.value(self.get(content, key), list[int], repr(key)) for key in ("row", "column"))
        for key, places in (("row", row), ("column", column)):
            if not all(0 <= place < size for place in places):
                self.fail(f"{key!r} of 'delta_precision' must be whole numbers from 0 to {size - 1}")
        value = self.value(self.get(content, "value"), list[float], "'value'")
        if not len(row) == len(column) == len(value):
            self.fail("'delta_precision' has lists of different lengths")
        entries = csr_array((value, (row, column)), shape=(size, size))
        if self.value(self.get(content, "symmetric"), bool, "'symmetric'"):
            entries = csr_array(entries + entries.T - diags_array(entries.diagonal()))
        return entries


def _deep(value: object) -> bool:
    """Whether lists and objects are nested too deep to be walked through."""
    level = [value]
    for _ in range(DEEPEST):
        level = [item for own in level if isinstance(own, dict) for item in own.values()] + [
            item for own in level if isinstance(own, list) for item in own
        ]
    return bool(level)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "..."
