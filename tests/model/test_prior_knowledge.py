import itertools
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diffdag._base.errors import InputError
from diffdag.model.prior_knowledge import precedence, read_tiers
from diffdag.model.sem import causal_order

ABCD = ["A", "B", "C", "D"]
many = settings(max_examples=150, derandomize=True, deadline=None)


def matrix(names, pairs):
    """The matrix that has exactly these pairs."""
    before = np.zeros((len(names), len(names)), bool)
    for cause, effect in pairs:
        before[names.index(cause), names.index(effect)] = True
    return before


def admissible(names, order=None, tiers=(), required=(), forbidden=()):
    """All orders that respect what is known, by trying each and reading the statements literally."""
    for candidate in itertools.permutations(names):
        place = {name: k for k, name in enumerate(candidate)}
        fine = order is None or list(candidate) == list(order)
        fine = fine and all(place[cause] < place[effect] for cause, effect in required)
        fine = fine and all(place[effect] < place[cause] for cause, effect in forbidden)
        for early, late in itertools.combinations(tiers, 2):
            fine = fine and all(place[cause] < place[effect] for cause in early for effect in late)
        if fine:
            yield place


@st.composite
def statements(draw):
    names = [*ABCD[: draw(st.integers(2, 4))], "E"]
    pairs = st.lists(st.sampled_from(list(itertools.permutations(names, 2))), max_size=3)
    known = {"required": draw(pairs), "forbidden": draw(pairs)}
    if draw(st.booleans()):
        tier_of = {name: draw(st.sampled_from([None, 0, 1, 2])) for name in names}
        tiers = [[name for name in names if tier_of[name] == tier] for tier in (0, 1, 2)]
        if any(tiers):
            known["tiers"] = tiers
    if draw(st.integers(0, 3)) == 0:
        known["order"] = draw(st.permutations(names))
    return names, known


@many
@given(statements())
def test_before_is_what_all_admissible_orders_share(case):
    names, known = case
    orders = list(admissible(names, **known))
    if not orders:
        with pytest.raises(InputError, match="the known directions contradict each other: "):
            precedence(names, **known)
        return
    shared = [pair for pair in itertools.permutations(names, 2) if all(o[pair[0]] < o[pair[1]] for o in orders)]
    np.testing.assert_array_equal(precedence(names, **known), matrix(names, shared))


@many
@given(st.integers(2, 30), st.floats(0.5, 2.5), st.integers(0, 10**6))
def test_the_closure_is_that_of_warshall(p, degree, seed):
    rng = np.random.default_rng(seed)
    direct = np.triu(rng.random((p, p)) < degree / p, 1)
    label = rng.permutation(p)
    direct = direct[np.ix_(label, label)]
    names = [f"v{k}" for k in range(p)]
    before = precedence(names, required=[(names[a], names[b]) for a, b in np.argwhere(direct)])
    expected = direct.copy()
    for k in range(p):
        expected |= np.outer(expected[:, k], expected[k])
    np.testing.assert_array_equal(before, expected)
    assert len(causal_order(before.T)) == p


def test_nothing_known_is_no_constraint():
    before = precedence(ABCD)
    assert before.shape == (4, 4)
    assert before.dtype == bool
    assert not before.any()
    assert not precedence(ABCD, required=[], forbidden=()).any()
    assert precedence([]).shape == (0, 0)


@many
@given(st.permutations(ABCD))
def test_ways_of_saying_one_order_agree(order):
    chain = list(itertools.pairwise(order))
    expected = precedence(ABCD, order=order)
    assert expected.sum() == 6
    np.testing.assert_array_equal(expected, matrix(ABCD, itertools.combinations(order, 2)))
    same = [
        {"tiers": [[name] for name in order]},
        {"tiers": {name: 10 * k - 7.5 for k, name in enumerate(order)}},
        {"required": chain},
        {"required": [f"{cause}->{effect}" for cause, effect in chain]},
        {"forbidden": [(effect, cause) for cause, effect in chain]},
        {"tiers": [order[:2], order[2:]], "required": chain[:1], "forbidden": [chain[2][::-1]]},
        {"order": np.array(order), "tiers": [order[:1], order[1:]], "required": chain},
    ]
    for known in same:
        np.testing.assert_array_equal(precedence(ABCD, **known), expected)


def test_tiers_leave_free_what_they_do_not_say():
    before = precedence(ABCD, tiers=[["C"], ["A", "D"]])
    np.testing.assert_array_equal(before, matrix(ABCD, [("C", "A"), ("C", "D")]))
    np.testing.assert_array_equal(precedence(ABCD, tiers={"A": 2, "C": -1, "D": 2.0}), before)
    np.testing.assert_array_equal(precedence(ABCD, tiers=({"C"}, [], ("D", "A"))), before)
    np.testing.assert_array_equal(precedence(ABCD, tiers=iter([iter("C"), iter("AD")])), before)
    assert not precedence(ABCD, tiers=[ABCD]).any()


def test_tiers_reach_beyond_the_next():
    before = precedence(ABCD, tiers=[["D"], [], ["B"], ["A"]])
    np.testing.assert_array_equal(before, matrix(ABCD, [("D", "B"), ("D", "A"), ("B", "A")]))


def test_pairs_as_text_take_names_as_they_are():
    names = ["IL-2", "T cell", ">x", "y-", "a->b"]
    expected = matrix(names, [("IL-2", "T cell"), ("y-", ">x"), ("a->b", "y-"), ("a->b", ">x")])
    required = ["IL-2  ->T cell", "y-->>x", ("a->b", "y-")]
    np.testing.assert_array_equal(precedence(names, required=required), expected)
    required = {"IL-2->T cell ", "y- -> >x", ("a->b", "y-")}
    np.testing.assert_array_equal(precedence(names, required=required), expected)


def test_names_that_are_not_text_are_taken_as_text():
    np.testing.assert_array_equal(
        precedence([0, 1, 2], required=np.array([[2, 0]]), forbidden=[(np.int64(1), "2")]),
        matrix(["0", "1", "2"], [("2", "0"), ("2", "1")]),
    )


def test_500_variables_take_less_than_a_second():
    names = [f"gene {k}" for k in np.random.default_rng(0).permutation(500)]
    chain = [f"{cause} -> {effect}" for cause, effect in itertools.pairwise(names)]
    start = time.perf_counter()
    before = precedence(names, required=chain)  # the most rounds of squaring there can be
    assert time.perf_counter() - start < 1
    np.testing.assert_array_equal(before, np.triu(np.ones((500, 500), bool), 1))
    start = time.perf_counter()
    with pytest.raises(
        InputError, match=f": {names[3]} before {names[400]} before {names[3]}; correct order= and"
    ):
        precedence(names, order=names, required=[(names[400], names[3])])
    assert time.perf_counter() - start < 3


CYCLES = {
    "two": ({"required": ["A->B", "B->A"]}, "A before B before A; correct required=$"),
    "three": ({"required": ["B->C", "C->A", "A->B"]}, "A before B before C before A; correct required=$"),
    "not from the first": ({"required": ["A->D", "D->B", "B->D"]}, "B before D before B; correct required=$"),
    "the shortest": (
        {"required": ["A->B", "B->C", "C->D", "D->A", "D->B"]},
        "B before C before D before B; correct required=$",
    ),
    "order and tiers": (
        {"order": ABCD, "tiers": [["C"], ["A"]]},
        "A before C before A; correct order= and tiers=$",
    ),
    "tiers and a chain": (
        {"tiers": {"D": 0, "A": 1}, "required": ["A->B", "B->D"]},
        "A before B before D before A; correct tiers= and required=$",
    ),
    "required and forbidden": (
        {"order": ABCD, "required": ["B->A"], "forbidden": ["A->C", ("B", "A")]},
        "A before B before A; correct order= and required= and forbidden= "
        r"\(it says which way effects run, not that there is none\)$",
    ),
    "only what is involved": (
        {"tiers": [["A"], ["D"]], "required": ["B->C", "C->B"], "forbidden": ["C->A"]},
        "B before C before B; correct required=$",
    ),
    "forbidden both ways": (
        {"forbidden": ["A->B", "B->A"]},
        r"A before B before A; correct forbidden= \(it says which way effects run, not that there is none\)$",
    ),
}


@pytest.mark.parametrize(("known", "message"), CYCLES.values(), ids=CYCLES)
def test_a_contradiction_is_told_as_a_shortest_cycle(known, message):
    with pytest.raises(InputError, match=f"^the known directions contradict each other: {message}"):
        precedence(ABCD, **known)


@many
@given(st.lists(st.sampled_from(list(itertools.permutations("ABCDEF", 2))), min_size=4, max_size=14))
def test_the_cycle_told_is_real_and_shortest(pairs):
    names = list("ABCDEF")
    walks = matrix(names, pairs).astype(int)
    lengths = [k for k in range(1, 7) if np.trace(np.linalg.matrix_power(walks, k)) > 0]
    if not lengths:
        assert not precedence(names, required=pairs).diagonal().any()
        return
    with pytest.raises(InputError) as caught:
        precedence(names, required=pairs)
    told = str(caught.value).removeprefix("the known directions contradict each other: ").split(";")[0]
    cycle = told.split(" before ")
    assert set(itertools.pairwise(cycle)) <= set(pairs)
    assert cycle[0] == cycle[-1]
    assert len(cycle) - 1 == lengths[0]


PAIR = r"which is not one cause and one effect; write 'cause -> effect' or give \(cause, effect\)$"
MALFORMED = {
    "order, text": ({"order": "ABCD"}, "^order= is the text 'ABCD'; give a list of all names, causes first$"),
    "order, bytes": ({"order": b"ABCD"}, "^order= is the text .*; give a list of all names"),
    "order, number": ({"order": 3}, "^order= is of type int; give a list of all names, causes first$"),
    "order, no axis": ({"order": np.array(3)}, "^order= is of type ndarray; give a list"),
    "order, set": ({"order": set(ABCD)}, "^order= is a set, which has no first and last; give a list"),
    "order, mapping": (
        {"order": dict.fromkeys(ABCD, 1)},
        "^order= is a mapping; give a list .* or use tiers=$",
    ),
    "order, short": (
        {"order": ["D", "A"]},
        "^order= leaves out 'B' and 'C'; name every variable once, or use tiers=$",
    ),
    "order, empty": ({"order": []}, "^order= leaves out 'A', 'B', 'C' and 'D'; name every variable once"),
    "order, twice": (
        {"order": [*ABCD, "B", "A"]},
        "^'A' and 'B' appear more than once in order=; name each variable once$",
    ),
    "order, unknown": (
        {"order": [*ABCD, "xyz", "Q"]},
        "^order= names 'xyz' and 'Q', which are not variables here; the variables are 'A', 'B', 'C' and 'D'$",
    ),
    "order, nested": ({"order": [["A"], "B", "C", "D"]}, r"^order= names '\['A'\]', which is not a variable"),
    "tiers, text": (
        {"tiers": "A,B"},
        "^tiers= is the text 'A,B'; give a list of groups of names, causes first$",
    ),
    "tiers, number": ({"tiers": 3}, "^tiers= is of type int; give a list of groups"),
    "tiers, set": ({"tiers": {("A",), ("B",)}}, "^tiers= is a set, which has no first and last; give a list"),
    "tiers, flat": (
        {"tiers": [["A"], "B"]},
        "^tier 2 of tiers= is the text 'B'; give a list of names for each tier$",
    ),
    "tiers, flat array": ({"tiers": np.array(ABCD)}, "^tier 1 of tiers= is the text 'A'; give a list"),
    "tiers, missing": ({"tiers": [None]}, "^tier 1 of tiers= is of type NoneType; give a list of names"),
    "tiers, empty": ({"tiers": []}, "^tiers= names no variable; give a list of groups of names, causes first$"),
    "tiers, all empty": ({"tiers": [[], []]}, "^tiers= names no variable; give"),
    "tiers, empty mapping": ({"tiers": {}}, "^tiers= names no variable; give"),
    "tiers, twice": ({"tiers": [["A"], ["B", "A"]]}, "^'A' appears more than once in tiers=; name each"),
    "tiers, twice in one": ({"tiers": [["A", "A"]]}, "^'A' appears more than once in tiers=; name each"),
    "tiers, unknown": ({"tiers": [["A"], ["Q"]]}, "^tiers= names 'Q', which is not a variable here; the var"),
    "tiers, unknown key": ({"tiers": {"A": 1, "AB": 2}}, "^tiers= names 'AB', .*; did you mean 'B'[?]$"),
    "tiers, word": (
        {"tiers": {"A": "late"}},
        "^tiers= gives 'A' the tier 'late'; give a number, smaller is earlier$",
    ),
    "tiers, nan": ({"tiers": {"A": np.nan}}, "^tiers= gives 'A' the tier 'nan'; give a number"),
    "tiers, none": ({"tiers": {"A": None}}, "^tiers= gives 'A' the tier 'None'; give a number"),
    "tiers, huge": ({"tiers": {"A": 10**400}}, "^tiers= gives 'A' the tier '1000*'; give a number"),
    "pairs, text": (
        {"required": "A->B"},
        r"^required= is the text 'A->B'; give a list of pairs, such as \['A -> B'\]$",
    ),
    "pairs, number": ({"forbidden": 1}, "^forbidden= is of type int; give a list of pairs"),
    "pairs, not in a list": ({"required": ("A", "B")}, f"^required= has 'A', {PAIR}"),
    "pairs, mapping": ({"required": {"A": "B"}}, f"^required= has 'A', {PAIR}"),
    "pair, chain": ({"forbidden": ["A->B->C"]}, f"^forbidden= has 'A->B->C', {PAIR}"),
    "pair, wrong arrow": ({"required": [np.str_("A<-B")]}, f"^required= has 'A<-B', {PAIR}"),
    "pair, no effect": ({"required": ["A -> "]}, f"^required= has 'A -> ', {PAIR}"),
    "pair, no cause": ({"required": [("", "B")]}, rf"^required= has \('', 'B'\), {PAIR}"),
    "pair, three": ({"required": [("A", "B", "C")]}, rf"^required= has \('A', 'B', 'C'\), {PAIR}"),
    "pair, one": ({"required": [("A",)]}, rf"^required= has \('A'\), {PAIR}"),
    "pair, number": ({"required": ["A->B", 5]}, "^a pair of required= is of type int; write 'cause -> effect'"),
    "pair, set": ({"required": [{"A", "B"}]}, "^a pair of required= is a set, which has no first and last; wr"),
    "pair, itself": ({"required": ["A->A"]}, "^required= pairs 'A' with itself; give two different variables$"),
    "pair, unknown": (
        {"forbidden": ["A->Q", "Q->B", ("C", "R")]},
        "^forbidden= names 'Q' and 'R', which are not variables here; the variables are",
    ),
    "pair, long arrow": ({"required": ["A-->B"]}, "^required= names 'A-', .*; did you mean 'A'[?]$"),
}


@pytest.mark.parametrize(("known", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_knowledge_is_one_clear_line(known, message):
    with pytest.raises(InputError, match=message) as caught:
        precedence(ABCD, **known)
    assert "\n" not in str(caught.value)


def test_names_themselves_are_checked():
    with pytest.raises(InputError, match=r"^names= is the text 'ABCD'; give a list of names$"):
        precedence("ABCD")
    with pytest.raises(InputError, match=r"^'A' appears more than once in names=; name each variable once$"):
        precedence(["A", "B", "A"])


things = st.recursive(
    st.none() | st.integers() | st.floats() | st.binary(max_size=3) | st.text("AB->, ", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text("AB", max_size=2), inner, max_size=2)
    ),
    max_leaves=6,
)


@many
@given(st.dictionaries(st.sampled_from(["order", "tiers", "required", "forbidden"]), things, max_size=2))
def test_whatever_is_given_the_answer_is_a_strict_order_or_an_input_error(known):
    try:
        before = precedence(["A", "B"], **known)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either end is fine, a line break is not
    else:
        assert not (before & before.T).any()


FORMS = {
    "plain": (b"A,B\nC\n", [["A", "B"], ["C"]]),
    "no line end": (b"A,B\nC", [["A", "B"], ["C"]]),
    "windows": (b"A, B\r\n\r\nC\r\n", [["A", "B"], ["C"]]),
    "old mac": (b"A\rB\r", [["A"], ["B"]]),
    "byte order mark": (b"\xef\xbb\xbfA,B\nC\n", [["A", "B"], ["C"]]),
    "byte order mark, comment": (b"\xef\xbb\xbf# x\nA\n", [["A"]]),
    "comments": (b"# genes, first\nA\n  # proteins\n\n   \nB\n#", [["A"], ["B"]]),
    "quotes": (b'"A, long", "#1",B"2"\n"say ""C"""\n', [["A, long", "#1", 'B"2"'], ['say "C"']]),
    "spreadsheet": (b"A,B,C\nD,,\n,,\n,E,\n", [["A", "B", "C"], ["D"], ["E"]]),
    "spaces inside": (b"T cell , IL-2\n", [["T cell", "IL-2"]]),
    "other alphabets": ("β-actin\nα\u2028x\n".encode(), [["β-actin"], ["α\u2028x"]]),
    "numbered": (b"variable,tier\nA,2\nB,1\nC,2\nD,-0.5\n", [["D"], ["B"], ["A", "C"]]),
    "numbered as a number, not as text": (b"variable,tier\nA,10\nB,9\nC,9.0\n", [["B", "C"], ["A"]]),
    "numbered, adorned": (
        b'\xef\xbb\xbf# by Jo\r\n Variable, "Tier",\r\n\r\n"A, long", 2 ,,\r\n# x\r\nB,1,,\r\n',
        [["B"], ["A, long"]],
    ),
    "the header further down is names": (b"A\nvariable,tier\n", [["A"], ["variable", "tier"]]),
}


@pytest.mark.parametrize(("content", "tiers"), FORMS.values(), ids=FORMS)
def test_tiers_are_read(tmp_path, content, tiers):
    path = tmp_path / "tiers.txt"
    path.write_bytes(content)
    assert read_tiers(path) == tiers
    assert read_tiers(str(path)) == tiers


BROKEN = {
    "missing": (None, "^file '.*tiers.txt' does not exist; check the path$"),
    "empty": (b"", "^file '.*tiers.txt' names no variable; write one tier per line, causes first, names sep"),
    "byte order mark only": (b"\xef\xbb\xbf", "^file '.*tiers.txt' names no variable; write"),
    "comments only": (b"# A\n\n ,, \n", "^file '.*tiers.txt' names no variable; write"),
    "header only": (b"variable,tier\n", "^file '.*tiers.txt' names no variable; write"),
    "zeros": (b"A,B\n" + bytes(9), "^file '.*tiers.txt' is not a text file; save it as plain text in UTF-8$"),
    "utf-16": ("A,B\n".encode("utf-16"), "^file '.*tiers.txt' is not a text file; save"),
    "latin-1": (b"A\nB\nM\xfcller\n", "^line 3 of '.*tiers.txt' is not UTF-8 text; save the file in UTF-8$"),
    "latin-1 after a mark": (b"\xef\xbb\xbfA\n\xfc\n", "^line 2 of '.*tiers.txt' is not UTF-8 text; save"),
    "open quote": (b'A\n"B,C\nD"\n', "^line 2 of '.*tiers.txt' cannot be read .*; check its double quotes$"),
    "torn quote": (b'A\n"B"x,C\n', "^line 2 of '.*tiers.txt' cannot be read .*; check its double quotes$"),
    "twice": (
        b"# x\nA,B\n\nC,A\n",
        "^'A' is in line 2 and again in line 4 of '.*tiers.txt'; name each variable once$",
    ),
    "twice in a line": (b"A,A\n", "^'A' is in line 1 and again in line 1 of '.*tiers.txt'; name each"),
    "twice, numbered": (b"variable,tier\nA,1\nA,1\n", "^'A' is in line 2 and again in line 3 of"),
    "word as tier": (
        b"variable,tier\n\nA,late\n",
        "^line 3 of '.*tiers.txt' is 'A,late'; give a variable and its tier, a number, as the header says, or",
    ),
    "nan as tier": (b"variable,tier\nA,nan\n", "^line 2 of '.*tiers.txt' is 'A,nan'; give a variable and"),
    "no tier": (b"variable,tier\nA,1\nB,\n", "^line 3 of '.*tiers.txt' is 'B'; give a variable and its tier"),
    "no variable": (b"variable,tier\n,1\n", "^line 2 of '.*tiers.txt' is ',1'; give a variable and its tier"),
    "three fields": (b"variable,tier\nA,1,2\n", "^line 2 of '.*tiers.txt' is 'A,1,2'; give a variable and"),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_unusable_files_are_one_clear_line(tmp_path, content, message):
    path = tmp_path / "tiers.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_tiers(path)
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InputError, match=r"^'.*' is a folder; give a file$"):
        read_tiers(tmp_path)


fuzz = settings(many, suppress_health_check=[HealthCheck.function_scoped_fixture])


@fuzz
@given(st.binary(max_size=40) | st.text('AB,"#\n\r 1;', max_size=30).map(str.encode))
def test_any_file_gives_tiers_or_an_input_error(tmp_path, content):
    path = tmp_path / "tiers.txt"
    path.write_bytes(content)
    try:
        tiers = read_tiers(path)
    except InputError as error:
        assert "tiers.txt" in str(error)  # noqa: PT017 - either end is fine
    else:
        names = [name for tier in tiers for name in tier]
        assert all(tiers)
        assert len(set(names)) == len(names)
        assert precedence(names, tiers=tiers).shape == (len(names), len(names))


def test_both_forms_of_one_file_agree(tmp_path):
    (tmp_path / "lines.txt").write_text("C,A\nB\n", encoding="utf-8")
    (tmp_path / "numbers.csv").write_text("variable,tier\nB,7\nA,3\nC,3\n", encoding="utf-8")
    lines, numbers = (
        precedence(ABCD, tiers=read_tiers(tmp_path / name)) for name in ("lines.txt", "numbers.csv")
    )
    np.testing.assert_array_equal(lines, matrix(ABCD, [("A", "B"), ("C", "B")]))
    np.testing.assert_array_equal(numbers, lines)
