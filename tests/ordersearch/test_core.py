"""The compiled core by itself: its random numbers, its accuracy, what it refuses, and how it is stopped."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from orders import Literal, SplitMix64, problem_of
from studies import study

from diffdag import simulate_pair
from diffdag.ordersearch.core import _core
from diffdag.ordersearch.search import DYNAMIC, JointProblem, read_order, tabulate, walk_from

EVERYTHING = {"sweeps": 20, "careful": 20, "grain": 0.05}


def noisy(p, rows=(300, 250), seed=0):
    """A problem of many variables in which nothing depends on anything."""
    rng = np.random.default_rng(seed)
    return problem_of([rng.standard_normal((n, p)) for n in rows])


def behind_constant(order):
    """An order as the core knows it: the constant, which is the last variable there, comes first."""
    return np.array([len(order), *order], dtype=np.int64)


def with_constant(before):
    """What is known about the order, and that the constant precedes all."""
    known = np.pad(before, (0, 1))
    known[-1, :-1] = True
    return known


def for_walk(problem, **others):
    """The arguments of a walk."""
    p = problem.p
    usual = {
        "pairs": problem.pairs_in_core,
        "before": with_constant(problem.before),
        "unit": problem.unit,
        "order": behind_constant(range(p)),
        "steps": (200, 0),
        "sweeps": 2,
        "careful": 2,
        "thorough": True,
        "window": 3,
        "grain": 1e-7,
        "far": 100 * problem.unit,
        "seed": 1,
        "restless": np.ones(p + 1, bool),
        "barred": None,
        "report": None,
    }
    assert usual.keys() >= others.keys()
    return usual | others


def for_reading(problem, **others):
    p = problem.p + 1
    answers = {"costs": np.zeros(p), "changed": np.zeros((p, p), bool), "separate": np.zeros(p, bool)}
    order = behind_constant(range(problem.p))
    return {"pairs": problem.pairs_in_core, "order": order, "careful": True, "barred": None} | answers | others


def for_tables(problem, **others):
    p = problem.p
    usual = {"costs": np.zeros((1 << p, p)), "changes": np.zeros((1 << p, p), np.int64), "report": None}
    return {"pairs": problem.pairs_in_core} | usual | others


def for_weighing(problem, **others):
    order = behind_constant(range(problem.p))
    usual = {"order": order, "edges": np.array([[1, 0], [3, 2]]), "rises": np.zeros(2)}
    return {"pairs": problem.pairs_in_core} | usual | others


def for_best(p, **others):
    usual = {"costs": np.zeros((1 << p, p)), "before": np.zeros((p, p), bool), "order": np.arange(p)}
    return usual | {"scores": np.zeros(1 << p)} | others


def written(found):
    """All that an order says, byte by byte."""
    marks = found.changed, found.shifted, found.separate
    parts = (np.array(found.order), np.array(found.score), found.costs, *marks)
    return [part.tobytes() for part in parts]


# Random numbers


@pytest.mark.parametrize(
    ("state", "numbers"),
    [
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]),
        (
            1234567,
            [
                6457827717110365317,
                3203168211198807973,
                9817491932198370423,
                4593380528125082431,
                16408922859458223821,
            ],
        ),
        (
            1477776061723855037,
            [
                1985237415132408290,
                2979275885539914483,
                13511426838097143398,
                8488337342461049707,
                15141737807933549159,
                17093170987380407015,
                16389528042912955399,
                13177319091862933652,
            ],
        ),
    ],
)
def test_the_literal_generator_gives_the_published_numbers(state, numbers):
    """Those of Vigna's splitmix64.c, as other implementations test theirs."""
    random = SplitMix64(state)
    assert [random.bits() for _ in numbers] == numbers


def test_whole_and_real_numbers_and_shuffles_are_even():
    random = SplitMix64.seeded(880600)
    real = np.array([random.uniform() for _ in range(20_000)])
    assert real.min() >= 0
    assert real.max() < 1
    assert np.histogram(real, 10, (0, 1))[0] == pytest.approx(2000, abs=200)
    whole = np.bincount([random.below(7) for _ in range(14_000)])
    assert whole == pytest.approx(2000, abs=200)
    counts = dict.fromkeys(itertools.permutations("abc"), 0)
    for _ in range(12_000):
        items = list("abc")
        random.shuffle(items)
        counts[tuple(items)] += 1
    assert list(counts.values()) == pytest.approx([2000] * 6, abs=200)
    assert {SplitMix64.seeded(880601).below(1), SplitMix64.seeded(880601).below(2)} <= {0, 1}


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("count", [1, 2])
def test_the_core_draws_the_same_numbers(seed, count):
    """One number too many or too few, and a walk of many variables ends elsewhere."""
    first, *others = (study(880610 + k, 9, changed=0.4)[min(k, 1)] for k in range(count + 1))
    problems = [problem_of((first, other)) for other in others]
    landscape = problems[0] if count == 1 else JointProblem(tuple(problems))
    start = np.random.default_rng(880611).permutation(9).tolist()
    options = {"steps": (600, 600), "sweeps": 2, "careful": 1}
    found = walk_from(landscape, start, seed=seed, **options)
    expected = Literal(problems).walk(start, seed=seed, **options, far=100 * landscape.unit)
    assert list(found.order) == expected != start


@pytest.mark.parametrize("seed", [880800, 880803, 880804])
def test_annealing_many_variables_is_that_of_its_description(seed):
    """Costs that were kept, or passed over at a glance, are as good as costs worked out afresh."""
    noise = {"variances": (0.6, 1, 1.7), "variances_drawn": "per-condition"}
    pair = simulate_pair(18, neighbours=4, changes=8, rng=seed, **noise)
    problem = problem_of((pair.first.sample(200, seed), pair.second.sample(240, seed + 1)))
    start = np.random.default_rng(seed).permutation(18).tolist()
    found = walk_from(problem, start, steps=(4000, 0), seed=seed)
    assert list(found.order) == Literal([problem]).walk(start, steps=(4000, 0), seed=seed) != start


def test_seeds_lead_to_different_ends():
    problem = problem_of(study(880612, 12, changed=0.4))
    ends = {walk_from(problem, range(12), seed=seed, steps=(500, 0)).order for seed in range(20)}
    assert len(ends) > 10


# Accuracy


def test_what_a_walk_says_is_what_its_order_says():
    for count in (1, 2):
        problems = [problem_of(study(880620 + k, 12, (200, 300))) for k in range(count)]
        landscape = problems[0] if count == 1 else JointProblem(tuple(problems))
        walks = [walk_from(landscape, range(12), steps=(60_000, 60_000), seed=1, **EVERYTHING) for _ in "12"]
        again = read_order(landscape, walks[0].order)
        assert written(walks[0]) == written(walks[1]) == written(again)
        assert again.score == pytest.approx(landscape.base + again.costs.sum(), rel=1e-12)


def test_tables_made_by_thousands_of_swaps_are_as_exact_as_costs_worked_out_afresh():
    problem = problem_of(study(880630, 12, (200, 300)))
    values, changes = tabulate(problem)
    rng = np.random.default_rng(880630)
    for _ in range(60):
        order, members = rng.permutation(12).tolist(), 0
        said = read_order(problem, order)
        for i in order:
            assert values[members, i] == pytest.approx(said.costs[i], rel=1e-9, abs=1e-9)
            bits = changes[members, i]
            assert [bool(bits >> k & 1) for k in range(12)] == said.changed[i].tolist()
            assert bool(bits >> 12 & 1) == said.separate[i]
            assert bool(bits >> 13) == said.shifted[i]
            members |= 1 << i


def test_limits_exclude_only_what_is_not_found():
    """At a glance nothing changes: neither does it on a close look, which has to be the core's own."""
    glanced = 0
    for seed in range(880670, 880680):
        noise = {"variances": (0.6, 1, 1.7), "variances_drawn": "per-condition"}
        pair = simulate_pair(18, neighbours=4, changes=6, rng=seed, **noise)
        problem = problem_of((pair.first.sample(150, seed), pair.second.sample(180, seed + 1)))
        limits = problem.rules.limits.copy()
        limits[3], limits[4] = 1.0, 0.0
        patient = replace(problem, rules=problem.rules._replace(limits=limits))
        order = np.random.default_rng(seed).permutation(18)
        quick, slow = (read_order(which, order) for which in (problem, patient))
        np.testing.assert_allclose(quick.costs, slow.costs, atol=1e-9)
        assert (quick.changed == slow.changed).all()
        assert (quick.separate == slow.separate).all()
        glanced += (quick.costs == 0).sum()
    assert 18 < glanced < 180


# What is refused


def with_pairs(position, change):
    """Change one part of the pairs of a problem."""

    def changed(problem):
        parts = list(problem.pairs_in_core)
        parts[position] = change(parts[position])
        return tuple(parts)

    return changed


def cut(array):
    return np.ascontiguousarray(array[..., :-1])


BAD_PAIRS = {
    "first is not square": with_pairs(0, cut),
    "first is one matrix": with_pairs(0, lambda first: first[0]),
    "first of another pair": with_pairs(0, lambda first: np.concatenate([first, first])),
    "pooled is smaller": with_pairs(1, lambda pooled: np.ascontiguousarray(pooled[:, :-1, :-1])),
    "rows of three": with_pairs(2, lambda rows: np.ones((1, 3))),
    "a table without its last position": with_pairs(3, cut),
    "a table without its last row": with_pairs(3, lambda table: np.ascontiguousarray(table[:, :-1])),
    "limits without their last position": with_pairs(4, cut),
    "limits without their last row": with_pairs(4, lambda limits: np.ascontiguousarray(limits[:, :-1])),
    "equal is no truth value": with_pairs(5, lambda equal: "no"),
    "constant is no truth value": with_pairs(6, lambda constant: 1.5),
    "no pair": lambda problem: (*(part[:0] for part in problem.pairs_in_core[:5]), False, False),
    "no variables": lambda problem: (np.ones((1, 0, 0)), np.ones((1, 0, 0)), *problem.pairs_in_core[2:]),
    "too few parts": lambda problem: problem.pairs_in_core[:6],
    "no parts": lambda problem: (),
    "None": lambda problem: None,
    "complex numbers": with_pairs(0, lambda first: first * 1j),
    "words": with_pairs(0, lambda first: first.astype(str)),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_PAIRS)
def test_pairs_that_do_not_fit_are_refused(name):
    problem = noisy(4)
    pairs = BAD_PAIRS[name](problem)
    for function, given in (
        (_core.walk, for_walk(problem)),
        (_core.read, for_reading(problem)),
        (_core.tabulate, for_tables(problem)),
        (_core.weigh, for_weighing(problem)),
    ):
        with pytest.raises((ValueError, TypeError)):
            function(**given | {"pairs": pairs})


@pytest.mark.parametrize(
    "order",
    [
        [4, 0, 1, 2, 2],
        [4, 0, 1, 2, 4],
        [4, 0, 1, 2, 5],
        [4, 0, 1, 2, -1],
        [0, 1, 2, 3],
        [4, 0, 1, 2, 3, 5],
        [],
        [4, 0, 1, 2, 2**62],
        [[4, 0, 1, 2, 3]],
    ],
    ids=str,
)
def test_what_is_no_order_is_refused(order):
    problem, wrong = noisy(4), np.array(order, dtype=np.int64)
    before = wrong.copy()
    for function, given in ((_core.walk, for_walk), (_core.read, for_reading), (_core.weigh, for_weighing)):
        with pytest.raises((ValueError, TypeError)):
            function(**given(problem, order=wrong))
    assert (wrong == before).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("before", np.zeros((5, 4), bool)),
        ("before", np.zeros((4, 4), bool)),
        ("before", np.zeros((6, 6), bool)),
        ("before", np.zeros(25, bool)),
        ("restless", np.ones(4, bool)),
        ("restless", np.ones((5, 1), bool)),
        ("steps", (-1, 0)),
        ("steps", (1, 2, 3)),
        ("steps", 5),
        ("sweeps", -1),
        ("careful", 1.5),
        ("seed", -1),
        ("seed", 2**64),
        ("barred", (-1, 0)),
        ("barred", (1, 2, 3)),
        ("barred", 1),
        ("unit", "much"),
        ("far", None),
    ],
)
def test_options_that_do_not_fit_are_refused(name, value):
    with pytest.raises((ValueError, TypeError)):
        _core.walk(**for_walk(noisy(4), **{name: value}))


def test_a_report_that_cannot_be_called_ends_the_walk():
    with pytest.raises(TypeError, match="callable"):
        _core.walk(**for_walk(noisy(40), steps=(10**8, 0), report=5))


def strided(array):
    """The same numbers, with gaps between them."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def by_columns(array):
    return np.asfortranarray(array)


def frozen(array):
    array.flags.writeable = False
    return array


def narrow(array):
    return array.astype({"int64": np.int32, "float64": np.float32, "bool": np.int8}[array.dtype.name])


ANSWERS = [
    (_core.walk, for_walk, ["order"]),
    (_core.read, for_reading, ["costs", "changed", "separate"]),
    (_core.tabulate, for_tables, ["costs", "changes"]),
    (_core.weigh, for_weighing, ["rises"]),
    (_core.best_order, lambda problem: for_best(problem.p), ["order", "scores"]),
]


@pytest.mark.parametrize("spoil", [strided, by_columns, frozen, narrow, list], ids=lambda way: way.__name__)
def test_answers_are_never_written_to_a_copy(spoil):
    """An array that the core cannot fill as it is would come back as it was."""
    accepted, problem = [], noisy(4)
    for function, given, names in ANSWERS:
        for name in names:
            arguments = given(problem)
            if spoil is by_columns and arguments[name].ndim == 1:
                continue
            try:
                function(**arguments | {name: spoil(arguments[name])})
            except (ValueError, TypeError):
                continue
            accepted.append((function.__name__, name))
    assert accepted == []


@pytest.mark.parametrize(
    ("function", "given", "name", "shape"),
    [
        (_core.read, for_reading, "costs", (4,)),
        (_core.read, for_reading, "costs", (5, 1)),
        (_core.read, for_reading, "changed", (5, 4)),
        (_core.read, for_reading, "changed", (25,)),
        (_core.read, for_reading, "separate", (6,)),
        (_core.tabulate, for_tables, "costs", (15, 4)),
        (_core.tabulate, for_tables, "costs", (16, 5)),
        (_core.tabulate, for_tables, "changes", (16, 3)),
        (_core.tabulate, for_tables, "changes", (64,)),
        (_core.weigh, for_weighing, "rises", (3,)),
        (_core.weigh, for_weighing, "edges", (2, 3)),
        (_core.weigh, for_weighing, "edges", (4,)),
        (_core.best_order, lambda problem: for_best(4), "costs", (8, 4)),
        (_core.best_order, lambda problem: for_best(4), "costs", (16, 5)),
        (_core.best_order, lambda problem: for_best(4), "before", (4, 5)),
        (_core.best_order, lambda problem: for_best(4), "order", (3,)),
        (_core.best_order, lambda problem: for_best(4), "scores", (15,)),
    ],
)
def test_answers_of_another_shape_are_refused(function, given, name, shape):
    arguments = given(noisy(4))
    with pytest.raises((ValueError, TypeError)):
        function(**arguments | {name: np.zeros(shape, arguments[name].dtype)})


@pytest.mark.parametrize("edge", [(5, 0), (0, 5), (-1, 0), (0, 2**62)])
def test_changes_of_nobody_are_not_weighed(edge):
    with pytest.raises(ValueError, match="numbers of variables"):
        _core.weigh(**for_weighing(noisy(4), edges=np.array([[1, 0], edge])))


def test_tables_are_of_few_variables():
    many = noisy(32)
    with pytest.raises(ValueError, match="fewer than 32"):
        _core.tabulate(many.pairs_in_core, np.zeros((1, 32)), np.zeros((1, 32), np.int64), None)


@pytest.mark.parametrize("change", [strided, by_columns, narrow], ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", ["first", "before", "restless"])
def test_questions_in_another_form_are_refused_or_understood(name, change):
    before = np.zeros((6, 6), bool)
    before[0, 5] = before[3, 1] = True
    problem = problem_of(study(880640, 6, changed=0.4), before=before)
    moving, start = np.array([*[True, False] * 3, False]), [3, 0, 2, 1, 4, 5]
    usual, other = (for_walk(problem, order=behind_constant(start), restless=moving) for _ in "12")
    _core.walk(**usual)
    assert usual["order"].tolist() != [6, *start]
    if name == "first":
        other["pairs"] = with_pairs(0, change)(problem)
    else:
        other[name] = change(other[name])
    try:
        _core.walk(**other)
    except (ValueError, TypeError):
        return
    assert other["order"].tolist() == usual["order"].tolist()


def fastest(problem, pairs):
    """The least processor time that it takes to read an order."""
    taken = []
    for _ in range(7):
        start = time.process_time()
        _core.read(**for_reading(problem, pairs=pairs))
        taken.append(time.process_time() - start)
    return min(taken)


def looked_at_closely(limits):
    """Limits beyond which every variance lies."""
    limits = limits.copy()
    limits[:, 3], limits[:, 4] = 1.0, 0.0
    return limits


def first_entry(value):
    def spoilt(array):
        array = array.copy()
        array.flat[0] = value
        return array

    return spoilt


@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_takes_about_as_long_as_a_number(value, part):
    """Comparisons with it end a search for changes, which would try all sets of 12 causes otherwise."""
    problem = noisy(13)
    usual = with_pairs(4, looked_at_closely)(problem)
    spoilt = (*usual[:part], first_entry(value)(usual[part]), *usual[part + 1 :])
    assert fastest(problem, spoilt) < 40 * fastest(problem, usual)


def test_a_condition_that_is_not_positive_definite_takes_about_as_long_as_one_that_is():
    """More in the first condition than in both: costs are no numbers."""
    problem = noisy(13)
    first, pooled, *others = with_pairs(4, looked_at_closely)(problem)
    usual, exchanged = (first, pooled, *others), (pooled, first, *others)
    assert fastest(problem, exchanged) < 40 * fastest(problem, usual)


@pytest.mark.slow
def test_one_variable_stays_where_it_is():
    """In a process of its own: a swap with nobody would spoil the memory."""
    code = """if True:
        import numpy as np
        from diffdag.ordersearch.search import Problem, walk_from
        problem = Problem.from_scatter(np.eye(1) * 50, np.eye(1) * 90, 50, 60, False, np.zeros((1, 1), bool), 1)
        for _ in range(300):
            for steps in ((0, 0), (50, 50)):
                assert walk_from(problem, [0], steps=steps, sweeps=2, careful=2).order == (0,)
    """
    subprocess.run([sys.executable, "-c", code], check=True)


# How it is stopped and watched


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("jobs", [1, 2])
def test_long_walks_end_when_they_are_interrupted(jobs):
    """In the main thread by the signal itself, in others because nobody waits for them."""
    code = """if True:
        import signal
        import numpy as np
        from diffdag._base.parallel import run_all
        from diffdag.ordersearch.search import Problem, walk_from
        signal.signal(signal.SIGINT, signal.default_int_handler)  # also where tests run in the background
        first, second = np.random.default_rng(0).standard_normal((2, 400, 200))
        free = np.zeros((200, 200), bool)
        problem = Problem.from_scatter(first.T @ first, second.T @ second, 400, 400, False, free, 200)
        print("ready", flush=True)
        def walk(seed):
            walk_from(problem, range(200), steps=(10**9, 0), seed=seed)
        list(run_all(walk, [1, 2], jobs=JOBS, prefer="threads"))
    """
    command = [sys.executable, "-c", code.replace("JOBS", str(jobs))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.5)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            asked = time.monotonic()
            _, said = process.communicate(timeout=30)
            assert time.monotonic() - asked < 1.5
        finally:
            process.kill()
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT


class Enough(Exception):
    pass


def counting(most):
    """A report that ends the work when it has been called so often; and what it was told."""
    told = []

    def report(share):
        told.append(share)
        if len(told) == most:
            raise Enough

    return report, told


def test_annealing_says_how_far_it_is_and_ends_when_told_so():
    problem, (report, shares), order = noisy(40), counting(4), behind_constant(range(40))
    start = time.monotonic()
    with pytest.raises(Enough):
        _core.walk(**for_walk(problem, order=order, steps=(10**9, 0), report=report))
    assert time.monotonic() - start < 10
    assert len(shares) == 4
    assert all(type(share) is float for share in shares)
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1
    assert order[0] == 40
    assert sorted(order.tolist()) == list(range(41))


def test_a_walk_to_its_end_says_how_far_it_is():
    (report, shares), order = counting(0), behind_constant(range(30))
    _core.walk(**for_walk(noisy(30), order=order, steps=(3_000_000, 0), report=report))
    assert shares
    assert all(0 <= share <= 1 for share in shares)
    other = behind_constant(range(30))
    _core.walk(**for_walk(noisy(30), order=other, steps=(3_000_000, 0)))
    assert order.tolist() == other.tolist()  # whoever watches


def test_careful_insertion_ends_when_told_so():
    rng, (report, shares) = np.random.default_rng(880655), counting(1)
    problem = problem_of([rng.standard_normal((300, 60)) @ rng.standard_normal((60, 60)) for _ in "12"])
    with pytest.raises(Enough):
        _core.walk(**for_walk(problem, steps=(0, 0), sweeps=0, careful=1000, report=report))
    assert shares == [1.0]


def test_tables_say_how_far_they_are_and_end_when_told_so():
    problem = problem_of(study(880650, DYNAMIC, (300, 300)))
    report, shares = counting(2)
    given = for_tables(problem, report=report)
    with pytest.raises(Enough):
        _core.tabulate(**given)
    assert 0 < shares[0] < shares[1] < 1


# Threads


def test_two_threads_walk_as_one_after_the_other():
    """Also the rows of a problem that both read; the seed tells the walks apart."""
    problem = problem_of(study(880660, 25, (200, 300), changed=0.1))
    start = np.random.default_rng(880660).permutation(25)
    options = {"steps": (40_000, 40_000), **EVERYTHING}
    expected = [walk_from(problem, start, seed=seed, **options) for seed in (1, 2)]
    found = {}

    def walk(seed):
        found[seed] = walk_from(problem, start, seed=seed, **options)

    threads = [threading.Thread(target=walk, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [written(found[seed]) for seed in (1, 2)] == [written(item) for item in expected]


def test_two_threads_walk_at_once():
    """Each waits in the middle of its walk until the other is there, too; and one may end before the other."""
    problem, meeting, ended = noisy(40), threading.Barrier(2, timeout=60), []

    def report(share):
        meeting.wait()
        raise Enough

    def walk():
        try:
            _core.walk(**for_walk(problem, steps=(10**9, 0), report=report))
        except Enough:
            ended.append(True)

    threads = [threading.Thread(target=walk) for _ in "12"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [True, True]
