"""Tables, names and options as nobody should send them, and as somebody will.

Hypothesis draws a number, and dice thrown from it make the rest: that is ten times as quick as drawing every
part, and inputs are so small that there is little to shrink. A third of them has nothing odd about it, and most
others have one thing: an input that is refused at the first look finds nothing behind it.
"""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from answers import HOSTILE
from hypothesis import strategies as st

T = TypeVar("T")


class Dice(random.Random):
    """Choices that follow from one number, among them how odd an input is: not at all, a little, or very."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.level = self.choices((0.0, 0.3, 1.0), (4, 4, 3))[0]

    def pick(self, values: Sequence[T]) -> T:
        return self.choice(values)

    def number(self, least: int, most: int) -> int:
        return self.randint(least, most)

    def flip(self) -> bool:
        return self.random() < 0.5

    def odd(self, share: float) -> bool:
        """Whether to do something odd, which happens in so many of the oddest inputs."""
        return self.random() < share * self.level

    def some(self, values: Sequence[T], most: int, least: int = 0) -> list[T]:
        """Some values, each once at most."""
        return self.sample(values, min(len(values), self.randint(least, most)))

    def fresh(self) -> int:
        return self.getrandbits(32)


def thrown(make: Callable[..., T], *arguments: Any) -> st.SearchStrategy[T]:
    """What a function makes of dice."""
    return st.integers(0, 2**62).map(lambda number: make(Dice(number), *arguments))


ODD_NAMES = (
    "", " ", "a", "A", "a ", "1", "0.5", "nan", "None", "Unnamed: 0", "index", "__index_level_0__", "x,y",
    "x;y", 'say "hi"', "a\tb", "a\nb", "a\rb", "=1+1", "+cmd", "-x", "@SUM(A1)", "\\", "\\n", "a\\", "->",
    "a -> b", "{a}", "<b>&amp;</b>", "\ud800", "\u202eabc", "e\u0301", "é", "\x00", "\x1b[31m", "group",
    "source", "n" * 3000, *HOSTILE,
)  # fmt: skip
PLAIN = ("a", "b", "c", "d", "e", "f", "g", "h")
EXTREMES = (
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 5e-324, 1e-308, 1e-160, 1e160, 1e300, 1.8e308 / 10, -1e308,
    2.0**53 + 2, 1e9, 1e-9, 0.1,
)  # fmt: skip


def names(dice: Dice, count: int) -> list[str]:
    """Names of columns: plain ones, of which some are replaced, some by others of the same table."""
    chosen = [*PLAIN, *(f"v{k}" for k in range(count))][:count]
    for place in range(count):
        if dice.odd(min(0.3, 1 / max(1, count))):
            chosen[place] = dice.pick(
                (dice.pick(ODD_NAMES), dice.pick(chosen), "".join(map(chr, dice.choices(range(1, 9000), k=3))))
            )
    return chosen


def matrices(dice: Dice, rows: int, columns: int) -> np.ndarray:
    """Numbers as measured, or as an export garbles them."""
    random = np.random.default_rng(dice.fresh())
    values = random.standard_normal((rows, columns))
    values @= np.eye(columns) + np.triu(random.uniform(-1, 1, (columns, columns)), 1)
    kind = dice.odd(0.6) and dice.pick(
        ("scale", "shift", "integer", "collinear", "constant", "huge", "tiny", "copies")
    )
    if kind == "scale":
        values *= 10.0 ** random.integers(-12, 12, columns)
    elif kind == "shift":
        values += 1e9
    elif kind == "integer":
        values = np.rint(values * 2)
    elif kind == "collinear" and columns > 1:
        values[:, -1] = values[:, 0] * 2 + 1
    elif kind == "constant" and columns:
        values[:, random.integers(columns)] = 7
    elif kind in ("huge", "tiny"):
        values *= dice.pick((1e-300, 1e-150, 1e150, 1e300))
    elif kind == "copies" and rows:
        values[rows // 2 :] = values[0]
    for _ in range(dice.odd(0.4) and dice.number(1, 3)):
        if rows and columns:
            place = dice.number(0, rows - 1), dice.number(0, columns - 1)
            values[place] = dice.pick(EXTREMES)
    return values


ROWS = (0, 1, 2, 3, 4, 5, 8, 12)
DTYPES = (
    "float32", "float16", "int8", "int64", "uint64", "bool", "complex128", "object", "str", "category", "Int64",
    "Float64", "boolean", "string", "datetime64[ns]", "timedelta64[ns]", "Sparse[float]", "decimal", "mixed",
    "numbers as text", "period", "double[pyarrow]", "dates", "nested", "huge whole numbers",
)  # fmt: skip


def _turned(values: np.ndarray, kind: str) -> Any:
    """One column of another kind."""
    plain = np.nan_to_num(values, nan=0.0, posinf=9.0, neginf=-9.0).clip(-100, 100)
    special: dict[str, Any] = {
        "complex128": lambda: values.astype("complex128") + 1j,
        "object": lambda: pd.Series(list(values), dtype=object),
        "str": lambda: pd.Series([f"g{int(abs(v)) % 3}" for v in plain], dtype=object),
        "category": lambda: pd.Categorical([f"g{int(abs(v)) % 3}" for v in plain]),
        "Int64": lambda: pd.array([None if k % 7 == 6 else int(v) for k, v in enumerate(plain)], dtype="Int64"),
        "boolean": lambda: pd.array(
            [None if k % 7 == 6 else v > 0 for k, v in enumerate(plain)], dtype="boolean"
        ),
        "datetime64[ns]": lambda: pd.to_datetime(plain.astype("int64"), unit="D"),
        "timedelta64[ns]": lambda: pd.to_timedelta(plain.astype("int64"), unit="D"),
        "Sparse[float]": lambda: pd.arrays.SparseArray(values),
        "decimal": lambda: pd.Series([decimal.Decimal(repr(float(v))) for v in values], dtype=object),
        "mixed": lambda: pd.Series(
            [(1, 0.5, "x", None, True)[k % 5] for k in range(len(values))], dtype=object
        ),
        "numbers as text": lambda: pd.Series([repr(float(v)) for v in values], dtype=object),
        "period": lambda: pd.period_range("2020", periods=len(values), freq="D"),
        "dates": lambda: pd.Series([datetime.date(2020, 1, 1)] * len(values), dtype=object),
        "nested": lambda: pd.Series([[1, 2]] * len(values), dtype=object),
        "huge whole numbers": lambda: pd.Series([10**400 + k for k in range(len(values))], dtype=object),
    }
    return special[kind]() if kind in special else pd.Series(np.rint(np.abs(plain))).astype(kind)


def frames(dice: Dice, like: pd.DataFrame | None = None) -> pd.DataFrame:
    """A frame, or one that resembles another: the two conditions of a comparison."""
    rows = dice.pick(ROWS) if dice.odd(0.4) else dice.pick((12, 20, 40))
    columns = dice.number(0, 1) if dice.odd(0.1) else dice.number(2, 5)
    if like is not None and not dice.odd(0.1):
        columns = like.shape[1]
    values = matrices(dice, rows, columns)
    chosen = list(like.columns) if like is not None and like.shape[1] == columns else names(dice, columns)
    parts = [pd.Series(values[:, k]) for k in range(columns)]
    for _ in range(dice.odd(0.6) and dice.number(1, 3)):
        if columns:
            place = dice.number(0, columns - 1)
            parts[place] = pd.Series(_turned(values[:, place], dice.pick(DTYPES)))
    frame = pd.concat(parts, axis=1) if parts else pd.DataFrame(index=range(rows))
    frame.columns = chosen
    shape = dice.odd(0.6) and dice.pick(("index", "levels", "labels", "reversed", "numbers"))
    if shape == "index":
        frame.index = pd.Index([f"s{k}" for k in range(rows)], name=dice.pick((None, "id", "a")))
    elif shape == "levels":
        frame.columns = pd.MultiIndex.from_tuples([("top", name) for name in chosen] or [("top", "")])[:columns]
    elif shape == "labels":
        frame.index = pd.MultiIndex.from_product([["s"], range(rows)])
    elif shape == "reversed":
        frame = frame.iloc[:, ::-1]
    elif shape == "numbers":
        frame.columns = range(columns)
    return frame


def _as_kind(frame: pd.DataFrame, kind: str) -> Any:  # noqa: PLR0911 - one a kind
    """The same table in another library; as it is, where that library will not have it."""
    try:
        match kind:
            case "array":
                return frame.to_numpy()
            case "masked":
                return np.ma.masked_invalid(frame.to_numpy(dtype=float))
            case "arrow":
                return pa.Table.from_pandas(frame)
            case "polars":
                return pl.from_pandas(frame)
            case "lazy":
                return pl.from_pandas(frame).lazy()
            case "cells":
                import anndata  # noqa: PLC0415

                return anndata.AnnData(
                    frame.to_numpy(dtype=float), var=pd.DataFrame(index=map(str, frame.columns))
                )
            case "odd":
                return (
                    None, 3, "table", [[1, 2], [3, 4]], {"a": [1, 2, 3]}, frame.T, frame.to_numpy().tolist(),
                    np.zeros((2, 2, 2)), np.array(3.0), np.array([["a", "b"]] * 4), object(),
                )[len(frame) % 11]  # fmt: skip
            case "transposed":
                return np.asfortranarray(frame.to_numpy())[::-1]
    except Exception:  # there is no end to what libraries refuse
        return frame
    return frame


KINDS = ("frame",) * 6 + ("array", "array", "arrow", "arrow", "polars", "lazy", "masked", "cells", "transposed")


def pairs(dice: Dice) -> tuple[Any, Any]:
    """Two tables of any kind, mostly of the same."""
    first = frames(dice)
    second = frames(dice, first)
    kind = "odd" if dice.odd(0.05) else dice.pick(KINDS)
    other = dice.pick(KINDS) if dice.odd(0.1) else kind
    return _as_kind(first, kind), _as_kind(second, other)


def sound_pairs(dice: Dice) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two tables that nothing is wrong with, but perhaps their names."""
    count = dice.number(2, 4)
    random = np.random.default_rng(dice.fresh())
    chosen = names(dice, count)
    weights = np.triu(random.uniform(-1, 1, (count, count)), 1)
    first = random.standard_normal((30, count)) @ (np.eye(count) + weights)
    second = random.standard_normal((25, count)) @ (np.eye(count) - weights)
    return pd.DataFrame(first, columns=chosen), pd.DataFrame(second, columns=chosen)


def grouped(dice: Dice) -> tuple[Any, Any]:
    """A table with a column that names groups, and what is said to be that column."""
    frame = frames(dice)
    labels = (
        ["x", "y"]
        if not dice.odd(0.8)
        else dice.pick(
            (
                ["x", "y"], ["x", "y", "z"], [1, 2], [1.0, 2.0, np.nan], [True, False], ["", "x"],
                [None, "x", "y"], ["1", "1.0"], [1, "1"], [0, False], [pd.NaT, pd.Timestamp("2020")],
                [("a", 1), ("b", 2)], ["x"], [decimal.Decimal(1), 2], ["x", "x ", "X"],
                list("abcdefghijklmnopqrstuvwxyz"), [1e300, -1e300], [np.inf, 1], ["\0(missing)", "x"],
                [b"x", b"y"],
            )
        )
    )  # fmt: skip
    column = pd.Series([None] * len(frame), dtype=object)
    for k in range(len(frame)):
        column[k] = labels[k % len(labels)]
    if dice.flip():
        column = column.convert_dtypes() if dice.flip() else column.infer_objects()
    frame = frame.reset_index(drop=True)
    place = dice.pick(("a", "")) if dice.odd(0.3) else "group"
    if isinstance(frame.columns, pd.MultiIndex):
        frame.columns = [str(name) for name in frame.columns]
    frame.insert(min(1, frame.shape[1]), place, column, allow_duplicates=True)
    asked = dice.pick(("b", "no such", "", 3, None)) if dice.odd(0.2) else place
    return _as_kind(
        frame, dice.pick(("odd", "array")) if dice.odd(0.1) else dice.pick(("frame", "arrow", "polars"))
    ), asked


ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, 5, -1, 10**30, 0.0, 0.5, 1.0, 1.5, -0.5, float("nan"), float("inf"), 1e-300,
    1e300, "", "auto", "a", "order", "paper", "nan", "1", "rate:1", "rate:", "rate:-1", (), [], {}, ["a", "b"],
    ("a",), {"a"}, {"a": 1}, [["a"], ["b"]], "a -> b", ["a -> b"], [("a", "b")], [["a", "b", "c"]], [1, 2],
    (3, 4), (0.5, 0.5), b"a", np.float64(0.3), np.int64(4), np.array([1, 2]), np.bool_(True), 1 + 2j, object,
    decimal.Decimal("0.5"), range(3),
)  # fmt: skip


def choices(dice: Dice) -> dict[str, Any]:
    """Which columns and rows to take."""
    chosen: dict[str, Any] = {"missing": "drop"} if dice.flip() else {}
    for name in ("columns", "drop"):
        if dice.odd(0.2):
            chosen[name] = dice.pick((dice.some((*PLAIN[:4], "nope", ""), 4), "a", [], [1], 3))
    if dice.odd(0.1):
        chosen["missing"] = dice.pick(("error", 3, None))
    return chosen


def options(dice: Dice, usual: dict[str, tuple[Any, ...]], most: int = 3) -> dict[str, Any]:
    """Some options with values that suit them, and now and then one that does not."""
    chosen = dice.some(sorted(usual), most)
    return {name: dice.pick(ODD_VALUES) if dice.odd(0.5) else dice.pick(usual[name]) for name in chosen}
