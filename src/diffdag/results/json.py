"""A result as JSON and CSV, and back from JSON.

The JSON is strict (no NaN, no Infinity) and carries a schema number. The difference of the precision
matrices is stored by its non-zero entries, as three parallel lists of rows, columns and values, where
rows and columns count the variables from 0; of a symmetric matrix only row <= column is stored.
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import asdict, fields
from importlib.metadata import version
from typing import Any, Literal, NoReturn, TypeVar

from scipy.sparse import csr_array, diags_array, triu

from diffdag._base.errors import InputError
from diffdag.results.records import (
    NUMBERS,
    Check,
    Cloud,
    Edge,
    EdgeScatter,
    GlobalTest,
    MeanChange,
    NoiseChange,
    Sensitivity,
    Share,
    Stability,
)
from diffdag.results.result import DifferenceResult, same_entries

SCHEMA = 1

Json = dict[str, Any]
T = TypeVar("T")

# What a file may leave out, and what is then assumed.
OPTIONAL: Json = {
    "order": [],
    "notes": [],
    "labels": ["first", "second"],
    "changed_noise": [],
    "changed_mean": [],
    "checks": [],
    "stability": None,
    "global_test": None,
    "sensitivity": None,
    "scatters": [],
    "delta_precision": {"symmetric": True, "row": [], "column": [], "value": []},
}


def to_json(result: DifferenceResult) -> str:
    """Return the result as JSON, one top-level key a line so that files can be compared."""
    samples = result.samples and dict(zip(("first", "second"), result.samples, strict=True))
    content: Json = {
        "schema": SCHEMA,
        "diffdag": version("diffdag"),
        "method": result.method,
        "labels": result.labels,
        "samples": samples,
        "variables": result.variables,
        "invariant": result.invariant,
        "unresolved": result.unresolved,
        "order": result.order,
        "settings": result.settings,
        "notes": result.notes,
        "edges": [_without_rare(asdict(edge)) for edge in result.edge_list],
        "changed_noise": [asdict(change) for change in result.noise_list],
        "changed_mean": [asdict(change) for change in result.mean_list],
        "checks": [asdict(check) for check in result.checks],
        "stability": result.stability and asdict(result.stability),
        "global_test": result.global_test and asdict(result.global_test),
        "sensitivity": result.sensitivity and asdict(result.sensitivity),
        "scatters": [asdict(scatter) for scatter in result.scatters],
        "delta_precision": _sparse(result.delta_entries),
    }
    lines = [f"{_dump(key)}: {_dump(value)}" for key, value in content.items()]
    return "{" + ",\n ".join(lines) + "}\n"


def _without_rare(edge: Json) -> Json:
    """An edge without the interval that most results do not have."""
    return {key: value for key, value in edge.items() if value is not None or key not in ("low", "high")}


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _sparse(matrix: csr_array) -> Json:
    symmetric = same_entries(matrix, csr_array(matrix.T))
    entries = (triu(matrix) if symmetric else matrix).tocsr().tocoo()
    return {
        "symmetric": symmetric,
        "row": entries.row.tolist(),
        "column": entries.col.tolist(),
        "value": entries.data.tolist(),
    }


def to_csv(result: DifferenceResult) -> str:
    """Return the table of edges as CSV; unknown numbers are empty."""
    # The csv module leaves a lone carriage return unquoted, and readers take it for the end of a line.
    returns = any("\r" in name for name in result.variables)
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    return result.edges.to_csv(index=False, lineterminator="\n", quoting=quoting)


def from_json(text: str | bytes, name: str) -> DifferenceResult:
    """Check and read what `to_json` wrote; `name` says in messages where the text came from."""
    try:
        return _Reader(name).read(text)
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
        def refuse(constant: str) -> NoReturn:
            self.fail(f"{constant} is not a JSON number")

        try:
            decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
            content = json.loads(decoded, parse_constant=refuse)
        except InputError:
            raise
        except (ValueError, RecursionError) as error:
            where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
            self.fail(f"is not JSON{where}", "give the result.json that diffdag wrote")
        if not isinstance(content, dict) or "schema" not in content:
            self.fail("is not a diffdag result", "give the result.json that diffdag wrote")
        schema = content["schema"]
        if isinstance(schema, bool) or schema != SCHEMA:
            self.fail(f"has schema {schema!r}, this version reads {SCHEMA}", "use the diffdag that wrote it")
        return content

    def read(self, text: str | bytes) -> DifferenceResult:
        content = OPTIONAL | self.parse(text)
        variables = self.names(content, "variables")
        return DifferenceResult(
            method=self.get(content, "method", str),
            variables=variables,
            invariant=self.names(content, "invariant"),
            unresolved=self.names(content, "unresolved"),
            order=tuple(self.texts(layer, "order") for layer in self.get(content, "order", list)),
            edge_list=tuple(self.edge(item) for item in self.get(content, "edges", list)),
            delta_entries=self.matrix(self.get(content, "delta_precision", dict), variables),
            samples=self.samples(content),
            settings=self.get(content, "settings", dict),
            notes=self.names(content, "notes"),
            labels=self.pair(self.names(content, "labels")),
            noise_list=self.records(content, "changed_noise", NoiseChange),
            mean_list=self.records(content, "changed_mean", MeanChange),
            checks=self.records(content, "checks", Check),
            stability=self.stability(content),
            global_test=self.global_test(content),
            sensitivity=self.sensitivity(content),
            scatters=tuple(self.scatter(item) for item in self.get(content, "scatters", list)),
        )

    def get(self, content: Json, key: str, kind: type | tuple[type, ...]) -> Any:
        if key not in content:
            self.fail(f"{key!r} is missing")
        value = content[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            words = {
                str: "text",
                list: "a list",
                dict: "an object",
                bool: "true or false",
                int: "a whole number",
                float: "a number",
            }
            expected = " or ".join(words.get(each, "null") for each in kinds)
            self.fail(f"{key!r} is {_short(value)}, expected {expected}")
        return value

    def texts(self, value: object, key: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fail(f"{key!r} must be a list of texts")
        return tuple(value)

    def names(self, content: Json, key: str) -> tuple[str, ...]:
        return self.texts(self.get(content, key, list), key)

    def pair(self, labels: tuple[str, ...]) -> tuple[str, str]:
        if len(labels) != 2:
            self.fail(f"'labels' has {len(labels)} entries, expected 2")
        return labels[0], labels[1]

    def samples(self, content: Json) -> tuple[int, int] | None:
        given = self.get(content, "samples", (dict, type(None)))
        if given is None:
            return None
        return self.get(given, "first", int), self.get(given, "second", int)

    def edge(self, item: object) -> Edge:
        if not isinstance(item, dict):
            self.fail(f"an edge is {_short(item)}, expected an object")
        numbers = {key: self.number(item[key], key) for key in NUMBERS if item.get(key) is not None}
        return Edge(
            source=self.get(item, "source", str),
            target=self.get(item, "target", str),
            directed=self.get(item, "directed", bool),
            change=self.get(item, "change", (str, type(None))),
            **{key: numbers.get(key) for key in self.present(item)},
        )

    def record(self, item: object, kind: type[T]) -> T:
        """A record of texts, numbers, and true or false, as the types of its fields say."""
        if not isinstance(item, dict):
            self.fail(f"a {kind.__name__} is {_short(item)}, expected an object")
        values: Json = {}
        for field in fields(kind):  # type: ignore[arg-type]
            if field.type in ("str", "bool", "int"):
                plain = {"str": str, "bool": bool, "int": int}[field.type]
                values[field.name] = self.get(item, field.name, plain)
            elif field.type in ("float", "float | None"):
                given = self.get(item, field.name, (int, float, type(None)))
                if given is None and field.type == "float":
                    self.fail(f"{field.name!r} is null, expected a number")
                values[field.name] = None if given is None else self.number(given, field.name)
            else:
                values[field.name] = item[field.name]
        return kind(**values)

    def records(self, content: Json, key: str, kind: type[T]) -> tuple[T, ...]:
        return tuple(self.record(item, kind) for item in self.get(content, key, list))

    def stability(self, content: Json) -> Stability | None:
        given = self.get(content, "stability", (dict, type(None)))
        if given is None:
            return None
        parts = {"shares": self.records(given, "shares", Share), "stable": self.names(given, "stable")}
        return self.record({**given, **parts}, Stability)

    def global_test(self, content: Json) -> GlobalTest | None:
        given = self.get(content, "global_test", (dict, type(None)))
        if given is None:
            return None
        parts = {key: self.number(value, key) for key, value in self.get(given, "statistics", dict).items()}
        return self.record({**given, "statistics": parts}, GlobalTest)

    def sensitivity(self, content: Json) -> Sensitivity | None:
        given = self.get(content, "sensitivity", (dict, type(None)))
        return None if given is None else self.record(given, Sensitivity)

    def scatter(self, item: object) -> EdgeScatter:
        if not isinstance(item, dict):
            self.fail(f"a scatter is {_short(item)}, expected an object")
        clouds = {key: self.cloud(self.get(item, key, dict)) for key in ("first", "second")}
        return self.record({**item, **clouds}, EdgeScatter)

    def cloud(self, item: Json) -> Cloud:
        points = {key: tuple(self.number(v, key) for v in self.get(item, key, list)) for key in ("x", "y")}
        return self.record({**item, **points}, Cloud)

    def present(self, item: Json) -> tuple[str, ...]:
        for key in NUMBERS:
            if key not in item and key not in ("low", "high"):
                self.fail(f"{key!r} is missing in an edge")
        return NUMBERS

    def number(self, value: object, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.fail(f"{key!r} is {_short(value)}, expected a finite number")
        return float(value)

    def matrix(self, content: Json, variables: tuple[str, ...]) -> csr_array:
        row, column = (self.places(content, key, len(variables)) for key in ("row", "column"))
        value = [self.number(item, "value") for item in self.get(content, "value", list)]
        if not len(row) == len(column) == len(value):
            self.fail("'delta_precision' has lists of different lengths")
        p = len(variables)
        entries = csr_array((value, (row, column)), shape=(p, p))
        if self.get(content, "symmetric", bool):
            entries = csr_array(entries + entries.T - diags_array(entries.diagonal()))
        return entries

    def places(self, content: Json, key: str, count: int) -> list[int]:
        places: list[int] = self.get(content, key, list)
        if not all(type(place) is int and 0 <= place < count for place in places):
            self.fail(f"{key!r} of 'delta_precision' must be whole numbers from 0 to {count - 1}")
        return places


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "..."
