"""Files as they come: sound ones in every format, and the same cut, flipped, mislabelled or lying."""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import zipfile
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
from answers import HOSTILE, graph
from hostile import Dice, frames, matrices, names
from hostile_studies import study

from diffdag.results.records import CHANGES, Edge

MARKS = (",", ";", "\t", "|", " ", ":")
CELLS = (
    "", "NA", "-", ".", "x", "1,5", "1.234,5", "1,234", "1 234", "1e400", "0x10", "1_000", "TRUE", "2020-01-01",
    "12:30", "∞", "inf", "-nan", "5%", "€5", '"', '"a"b', "'1'", "=1+1", "1d5", "\x00", "\ufeff1", "١",
    "1" * 400, "10.121,50", "#N/A", "null", " 1 ", "1;2", "a\nb",
)  # fmt: skip
ENDINGS = (".csv",) * 6 + (".txt", ".csv.gz", ".TXT", ".tsv")
ENCODINGS = ("utf-8-sig", "utf-8-sig", "utf-16", "latin-1", "utf-16-le", "utf-32", "cp1252")


def text_tables(dice: Dice, turned: bool = False) -> bytes:
    """A table as text, written in one of the many ways; turned, with variables in rows."""
    rows = dice.pick((0, 1, 2, 3, 5)) if dice.odd(0.4) else dice.pick((8, 12, 20, 30))
    columns = 1 if dice.odd(0.1) else dice.number(2, 5)
    values = matrices(dice, rows, columns)
    cells = [[repr(float(v)) for v in line] for line in values]
    mark = dice.pick(MARKS) if dice.odd(0.2) else dice.pick(MARKS[:4])
    if mark != "," and dice.flip():
        cells = [[cell.replace(".", ",") for cell in line] for line in cells]
    for _ in range(dice.odd(0.6) and dice.number(1, 2)):
        if rows:
            cells[dice.number(0, rows - 1)][dice.number(0, columns - 1)] = dice.pick(CELLS)
    header = names(dice, columns)
    end = dice.pick(("\n", "\n", "\n", "\r\n", "\r"))
    if dice.number(0, 3) == 3:  # groups, numbers of rows, texts
        kind = dice.number(0, 2)
        header, cells = (
            [*header, ("group", "", "when")[kind]],
            [[*line, (f"g{k % 2}", str(k), "2020-01-01")[kind]] for k, line in enumerate(cells)],
        )
    lines = [header, *cells]
    if turned:
        turned_lines = zip(*lines, strict=True)
        lines = [["name", *map(str, range(rows))], *(list(line) for line in turned_lines)]
    buffer = io.StringIO()
    if dice.odd(0.2):
        buffer.write("".join(mark.join(line) + end for line in lines))
    else:
        quoting: Any = dice.pick((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
        csv.writer(buffer, delimiter=mark, lineterminator=end, quoting=quoting).writerows(lines)
    text = (
        dice.pick(("sep=;" + end, "Report of today" + end, end * 3, "# remark" + end, '"'))
        if dice.odd(0.4)
        else ""
    ) + buffer.getvalue()
    tail = (
        ""
        if not dice.odd(0.4)
        else dice.pick((end * 4, mark * 9, '"', "\x1a", "total" + mark + "3" + end, "x" * 200_000))
    )
    return (text + tail).encode(dice.pick(ENCODINGS) if dice.odd(0.4) else "utf-8", "replace")


def changed(dice: Dice, content: bytes) -> bytes:
    """Some bytes, after an accident."""
    for _ in range(dice.pick((1, 1, 1, 2, 6))):
        place = dice.number(0, max(0, len(content) - 1))
        accident = dice.number(0, 6)
        if accident == 0:
            content = content[:place]
        elif accident == 1 and content:
            content = (
                content[:place] + bytes([content[place] ^ (1 << dice.number(0, 7))]) + content[place + 1 :]
            )
        elif accident == 2:
            content = content[:place] + dice.randbytes(dice.number(0, 12)) + content[place:]
        elif accident == 3:
            content = content[:place] + content[place + dice.number(1, 40) :]
        elif accident == 4:
            content = content[:place] + b"\xff\xff\xff\x7f" + content[place + 4 :]
        elif accident == 5:
            content = content[:place] + b"\x00" * dice.number(1, 64) + content[place:]
        elif accident == 6:
            content = content + content[place:]
    return content


def text_files(dice: Dice, turned: bool = False) -> tuple[str, bytes]:
    """Name and content of a table as text."""
    ending = dice.pick(ENDINGS)
    content = text_tables(dice, turned)
    if dice.odd(0.3):
        content = changed(dice, content)
    if ending.endswith(".gz"):
        content = gzip.compress(content, mtime=0)
        content = changed(dice, content) if dice.odd(0.3) else content
    return f"table{ending}", content


def turned_files(dice: Dice) -> tuple[str, bytes]:
    """A table with variables in rows; sometimes one that is not."""
    if dice.odd(0.2):
        return files(dice)
    if dice.number(0, 3):
        return text_files(dice, turned=True)
    frame = pd.DataFrame(matrices(dice, dice.number(2, 5), 20))
    frame.insert(0, "name", names(dice, len(frame)))
    frame.columns = [str(name) for name in frame.columns]
    kind = dice.pick(("parquet", "feather"))
    return f"table.{kind}", _table_bytes(frame, kind)


def npy_bytes(array: Any, *, pickled: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=pickled)
    return buffer.getvalue()


def npy_claiming(shape: tuple[int, ...], kind: str = "<f8", body: bytes = b"\0" * 64) -> bytes:
    """An NPY file whose header promises more than there is."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


class Trap:
    """Unpickled, it would leave a file behind."""

    def __reduce__(self) -> Any:
        return open, ("pickle-was-loaded", "w")


SHAPES = ((10**9, 3), (10**6, 10**6), (2**62, 4), (-1, 3), (2**31, 2**31), (3,), (), (5, 0), (0, 5), (2, 2, 2))


def npy_files(dice: Dice) -> bytes:
    kind = dice.pick(("claims", "pickle", "texts", "records", "odd")) if dice.odd(0.7) else "sound"
    few = dice.odd(0.2)
    values = matrices(
        dice, dice.pick((0, 2, 5)) if few else 20, dice.number(0, 4) if few else dice.number(2, 4)
    )
    if kind == "claims":
        return npy_claiming(dice.pick(SHAPES), dice.pick(("<f8", "|O", "|V8", "<U9", "|S0", "<f2")))
    if kind == "pickle":
        return npy_bytes(np.array([[Trap(), 1], [2, 3]], dtype=object), pickled=True)
    if kind == "texts":
        return npy_bytes(values.astype(dice.pick(("U8", "S8", "c16", "f4", "f2", "i8", "?", ">f8", "M8[D]"))))
    if kind == "records":
        return npy_bytes(np.zeros(5, dtype=[("a", "f8"), ("b", "i4")]))
    if kind == "odd":
        return npy_bytes(np.asfortranarray(values)[:, ::-1][..., None])
    return npy_bytes(values)


def npz_files(dice: Dice) -> bytes:
    members: dict[str, bytes] = {"table.npy": npy_files(dice)}
    if dice.odd(0.5):
        members["names.npy"] = npy_bytes(np.array(names(dice, dice.number(1, 4)), dtype=str))
    if dice.odd(0.3):
        members[dice.pick(("other.npy", "note.txt", "../up.npy", "columns.npy"))] = npy_files(dice)
    return zipped(members, dice.flip())


def zipped(members: dict[str, bytes], packed: bool = False) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, archive.compression)
    return buffer.getvalue()


def moments_files(dice: Dice) -> bytes:
    """A file of moments, with some entry that does not fit the others."""
    p = dice.number(2, 4)
    random = np.random.default_rng(dice.fresh())
    values, called = random.standard_normal((30, p)), names(dice, p)
    more: dict[str, Any] = {}
    if dice.flip():  # a category is carried along
        levels = np.arange(30)[:, None] % dice.pick((2, 3)) == np.arange(3)
        levels = levels[:, levels.any(axis=0)]
        values = np.hstack([values, levels])
        more["categories"] = np.array([""] * p + ["batch"] * levels.shape[1])
        called = [*called, *(f"batch={k}" for k in range(levels.shape[1]))]
    if dice.number(0, 4) == 4:
        more["mean_rows"] = dice.pick((0.0, 12.5, 30.0))
    centred = values - values.mean(axis=0)
    parts: dict[str, Any] = {
        "schema": 1,
        "names": np.array(called, dtype=str),
        "n": 30,
        "mean": values.mean(axis=0),
        "scatter": centred.T @ centred,
        **more,
    }
    members = {f"{key}.npy": npy_bytes(np.asarray(value)) for key, value in parts.items()}
    for _ in range(dice.odd(0.9) and dice.number(1, 2)):
        key = dice.pick(sorted(members))
        odd = dice.number(0, 3)
        value = dice.pick((0, -1, 2**63 - 1, 1e300, np.nan, "x", [1.5], [[1.0, 2.0], [3.0, 4.0]], []))
        members[key] = (npy_bytes(np.asarray(value)), npy_files(dice), b"", npy_claiming((10**9, 9)))[odd]
        if dice.odd(0.2):
            del members[key]
    return zipped(members)


def _table_bytes(frame: pd.DataFrame, kind: str) -> bytes:
    """A frame as Parquet or Feather; what these cannot hold becomes text."""
    try:
        table = pa.Table.from_pandas(frame)
        return _written(table, kind)
    except Exception:  # there is no end to what they refuse
        plain = pa.table(
            [pa.array([_said(v) for v in frame.iloc[:, k]]) for k in range(frame.shape[1])],
            names=[_said(name) for name in frame.columns],
        )
        return _written(plain, kind)


def _said(value: Any) -> str:
    return str(value).encode(errors="replace").decode()


def _written(table: pa.Table, kind: str) -> bytes:
    buffer = io.BytesIO()
    if kind == "parquet":
        pyarrow.parquet.write_table(table, buffer, row_group_size=max(1, table.num_rows // 2))
    else:
        packing = "uncompressed" if table.num_rows % 2 else "lz4"
        pyarrow.feather.write_feather(table, buffer, compression=packing)
    return buffer.getvalue()


def arrow_files(dice: Dice) -> tuple[str, bytes]:
    kind = dice.pick(("parquet", "feather"))
    content = _table_bytes(frames(dice), kind)
    if dice.odd(0.7):
        content = changed(dice, content)
    ending = dice.pick(
        (".parquet", ".parquet", ".pq") if kind == "parquet" else (".feather", ".feather", ".arrow")
    )
    return f"table{ending}", content


@functools.cache
def sound_cells(kind: str) -> bytes:
    """An .h5ad file."""
    import tempfile  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    import anndata  # noqa: PLC0415
    from scipy import sparse  # noqa: PLC0415

    random = np.random.default_rng(880_001)
    values = random.poisson(2, (24, 4)).astype(np.float32) + random.standard_normal((24, 4)).astype(np.float32)
    matrix: Any = {"dense": values, "csr": sparse.csr_matrix(values), "csc": sparse.csc_matrix(values)}[kind]
    cells = anndata.AnnData(
        matrix,
        obs=pd.DataFrame({"dose": ["x", "y"] * 12}, index=[f"c{k}" for k in range(24)]),
        var=pd.DataFrame({"top": [True, True, True, False]}, index=["g1", "g2", "g3", "g4"]),
    )
    cells.layers["log"] = np.log1p(np.abs(values))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cells.h5ad"
        cells.write_h5ad(path)
        return path.read_bytes()


def cell_files(dice: Dice) -> bytes:
    content = sound_cells(dice.pick(("dense", "csr", "csc")))
    return changed(dice, content) if dice.odd(0.9) else content


def files(dice: Dice) -> tuple[str, bytes]:
    """Name and content of a file of any kind; sometimes under the name of another kind."""
    kind = dice.pick(("text",) * 5 + ("arrow",) * 3 + ("npy", "npz", "cells"))
    kind = dice.pick(("moments", "json", "noise")) if dice.odd(0.1) else kind
    name, content = "table.csv", b""
    if kind in ("text", "arrow"):
        name, content = text_files(dice) if kind == "text" else arrow_files(dice)
    elif kind in ("npy", "npz"):
        name, content = f"table.{kind}", npy_files(dice) if kind == "npy" else npz_files(dice)
        content = changed(dice, content) if dice.odd(0.3) else content
    elif kind == "moments":
        name, content = "table.npz", moments_files(dice)
    elif kind == "cells":
        name, content = "table.h5ad", cell_files(dice)
    elif kind == "json":
        name, content = "result.json", result_files(dice)
    else:
        content = dice.randbytes(dice.number(0, 200))
    if dice.odd(0.2):
        name = dice.pick(
            (
                "table.csv", "table.parquet", "table.feather", "table.npy", "table.npz", "table.h5ad", "table",
                "table.xlsx", "table.json", "table.csv.gz", ".csv", "table.pq.gz",
            )
        )  # fmt: skip
    return name, content


# Saved answers.


@functools.cache
def sound_result(seed: int) -> str:
    """A result with something of everything."""
    random = np.random.default_rng(seed)
    chosen = [str(name) for name in random.permutation(["a", "b", "c", "d", *HOSTILE])[: random.integers(2, 6)]]
    edges = [
        Edge(chosen[i], chosen[j], change=str(random.choice(CHANGES)), delta=float(random.normal()))
        for i in range(len(chosen))
        for j in range(i + 1, len(chosen))
        if random.random() < 0.5
    ]
    return graph(chosen, edges, order=tuple((name,) for name in chosen), samples=(40, 50)).to_json()


# What results are about; each kind brings records of its own.
FITTED: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    ((), {"permutations": 19}),
    (("units",), {}),
    (("few",), {}),
    (("switched",), {}),
    (("shape",), {}),
    (("covariates", "gaps"), {}),
    (("stages",), {"intervals": "split"}),
    ((), {"resamples": 20, "fdr": 0.5, "permutations": 0}),
    (("memory",), {"method": "paper", "whiten": None}),
    ((), {"max_variables": 2}),
)


@functools.cache
def fitted_result(kind: int) -> str:
    """A result as fits give it."""
    from diffdag._base.errors import InputError  # noqa: PLC0415
    from diffdag.estimator import DifferenceDAG  # noqa: PLC0415

    traits, model = FITTED[kind]
    for seed in range(880_200, 880_250):
        dice = Dice(seed)
        dice.level = 0.0
        made = study(dice, 3, (40, 50), traits)
        settings = {**made.model, "stored_rows": 5, "n_jobs": 1, **model}
        try:
            return DifferenceDAG(**settings).fit(made.first, made.second, **made.wishes).result_.to_json()
        except InputError:  # a draw that no fit can use
            continue
    raise AssertionError(f"no fit of a study with {traits}")


@functools.cache
def fitted_conditions() -> str:
    """Several conditions, as `fit_conditions` compares them."""
    from diffdag.conditions import fit_conditions  # noqa: PLC0415

    random = np.random.default_rng(880_300)
    tables = {f"dose {k}": random.standard_normal((40, 3)) @ np.triu(np.full((3, 3), k)) for k in (1, 2, 3)}
    return fit_conditions(tables, reference="dose 1").to_json()


def conditions_of(parts: list[str]) -> str:
    """Several results in one file, as `fit_conditions` would save them."""
    conditions = ["base", *(f"dose {k}" for k in range(len(parts)))]
    contents = [json.loads(part) for part in parts]
    shared = contents[0]["variables"]
    comparisons = [
        {"first": "base", "second": name, "result": {**content, "labels": ["base", name]}}
        for name, content in zip(conditions[1:], contents, strict=True)
    ]
    return json.dumps(
        {
            "schema": 2, "diffdag": "0", "conditions": conditions, "reference": "base", "order": shared,
            "notes": [], "comparisons": comparisons,
        }
    )  # fmt: skip


ODD_JSON: tuple[Any, ...] = (
    None, True, 0, -1, 1, 10**40, 1e308, 0.5, "", "a", "x" * 500, [], {}, [None], [[]], ["a"], ["a", "a"],
    {"a": 1}, [1, 2], [1e400],
    {"symmetric": True, "row": [0], "column": [0], "value": [1]},
    "removed",
    "\ud800",
    [["a", "b"]],
)  # fmt: skip


def _places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something could be put into parsed JSON."""
    items = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    found = []
    for key, value in items:
        found += [(*path, key), *_places(value, (*path, key))]
    return found


def result_files(dice: Dice, several: bool | None = None) -> bytes:
    """A result.json or conditions.json in which a few things are other than expected."""
    several = dice.flip() if several is None else several
    fitted = dice.number(0, 2)
    text = (
        fitted_result(dice.number(0, len(FITTED) - 1)) if fitted else sound_result(880_100 + dice.number(0, 7))
    )
    if several:
        text = fitted_conditions() if dice.flip() else conditions_of([text] * dice.number(1, 3))
    content = json.loads(text)
    if dice.odd(0.1):
        content["schema"] = dice.pick((0, 1, 3, "2", 2.0, None, True))
    for _ in range(dice.odd(0.8) and dice.number(1, 2)):
        places = _places(content)
        if not places:
            break
        *path, last = dice.pick(places)
        holder = functools.reduce(lambda part, key: part[key], path, content)
        if dice.number(0, 3) == 3:
            del holder[last]
        else:
            holder[last] = dice.pick(ODD_JSON)
    written = json.dumps(content, ensure_ascii=dice.flip()).encode("utf-8", "surrogatepass")
    how = dice.number(0, 5) if dice.odd(0.5) else 9
    if how == 0:
        return b'{"schema": 2, "settings": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    if how == 1:
        deep = dice.pick((50, 300, 900))
        return written.replace(
            b'"settings": {', b'"settings": {"deep": ' + b'{"x": ' * deep + b"0" + b"}" * deep + b", ", 1
        )
    if how == 2:
        return written.replace(b"0.", dice.pick((b"NaN ", b"1e999 ", b"9" * 5000, b"-")), 1)
    return changed(dice, written) if how < 6 else written


def tier_files(dice: Dice) -> bytes:
    """What is known of the order, as text."""
    lines = dice.some(
        (
            "a, b", "c", "d", "", "# remark", '"x,y"', "a", "variable,tier", "a,1", "b,x", "c,1e400", "b,2",
            ",,,", '"', 'a "b"', "v\x00", "é", "\u2028", "c,d,", "x" * 200_000,
        ),
        6,
    )  # fmt: skip
    if not dice.odd(0.7):
        lines = dice.pick((["a, b", "# remark", "c"], ["a", "b,c,d"]))
    if dice.flip():
        lines = [
            "variable,tier",
            *(f"{name},{k}" for k, name in enumerate("abcd")),
            *(lines[:1] if dice.odd(0.5) else []),
        ]
    return (
        dice.pick(("\n", "\r\n", "\r"))
        .join(lines)
        .encode(dice.pick(ENCODINGS) if dice.odd(0.4) else "utf-8", "replace")
    )


def coordinate_files(dice: Dice) -> tuple[str, bytes]:
    """Places of regions."""
    header = (
        ["region", "x", "y", "z"]
        if not dice.odd(0.4)
        else dice.pick(
            (
                ["Name", "X", "Y", "Z"], ["x", "y", "z"], ["region", "x", "y"], ["region", "x", "x", "y", "z"],
                ["region", "name", "x", "y", "z"], ["", "x", "y", "z"],
            )
        )
    )  # fmt: skip
    cells = ("1", "-20.5", "3e1", "7", "", "x", "nan", "inf", "1e400", "1,5", "a", "b")
    body = [
        [
            dice.pick(("a", "b", "c", "d", *cells[4:]))
            if name.lower() in ("region", "name", "")
            else (dice.pick(cells) if dice.odd(0.2) else dice.pick(cells[:4]))
            for name in header
        ]
        for _ in range(dice.number(0, 2) if dice.odd(0.2) else dice.number(2, 5))
    ]
    if not dice.odd(0.3):
        for k, line in enumerate(body):
            line[0] = "abcdefg"[k]
    mark = dice.pick((",", ",", ";", "\t"))
    content = "\n".join(mark.join(line) for line in [header, *body]).encode()
    content = changed(dice, content) if dice.odd(0.3) else content
    return files(dice) if dice.odd(0.15) else ("regions.csv", content)
