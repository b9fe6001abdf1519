r"""The worlds over which confidence and direction are calibrated: pairs of tables with known truth.

A data set begins as two linear structural equation models that differ in no effect, in one to a dozen (few more
often than many) or in one gain and, so that claims have something to be confused with, in noise variances and
intercepts, of a few variables or of all. Its world then breaks one assumption of the method at a strength drawn
from 0 (hardly) to 1 (badly). Real tables break several at once: three data sets in ten break another, and three
in ten two to five others.

What counts as right
--------------------
A *pair* of columns is right if one acts on the other and that relation differs between the two conditions: the
effect itself, or the straight line through it, because a range moved along a bend or because of which rows were
kept. It is wrong if neither acts on the other, whatever an unmeasured cause does to both, or if only noise or
other effects changed. An *arrow* is right if the effect of its source on its target changed.

In the world ``proxies`` some causes have no column. A changed effect that runs through one is counted between
the nearest columns on either side (the latent projection). If the effect of an unmeasured cause on Y changed,
its other effects stand in for it: a pair of one of them with Y is right, and so is an arrow from it to Y,
because Y is where the mechanism changed. `Truth.through` keeps all these apart, so that a stricter count can
leave them out. Where the cause itself has a column, a copy of it beside it is wrong (world ``copies``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MOST = 10  # variables, by default: fits to resamples of more take long
MANY, SAME = 20_000, 0.05  # rows to see whether a line differs, and by how many standard deviations at least
OTHER_BREAKS = ((0.4, 0, 0), (0.3, 1, 1), (0.3, 2, 5))  # share of data sets, least and most other breaks


@dataclass(frozen=True)
class Truth:
    """Which effects differ, as (cause, effect) by column name."""

    direct: frozenset[tuple[str, str]]
    through: frozenset[tuple[str, str]]  # from a stand-in of an unmeasured cause
    lines: frozenset[tuple[str, str]] = frozenset()  # straight lines through effects that are the same

    def changed(self, source: str, target: str) -> bool:
        """Whether the effect of one on the other differs."""
        return (source, target) in self.direct | self.through

    def pair(self, one: str, other: str) -> bool:
        """Whether the relation of the two differs."""
        return bool({(one, other), (other, one)} & (self.direct | self.through | self.lines))


@dataclass(frozen=True, eq=False)
class DataSet:
    """Two tables, and what is true of them."""

    world: str
    first: Array
    second: Array
    names: tuple[str, ...]
    truth: Truth
    breaks: dict[str, float]  # what is broken, and how strongly


@dataclass
class Plan:
    """Two models over the same variables, and how rows come from them; axis 0 of arrays is the condition."""

    rng: np.random.Generator
    rows: tuple[int, int]
    weights: Array  # [condition, effect, cause]
    scale: Array  # standard deviations of the noise, [condition, variable]
    shift: Array  # intercepts
    order: list[int]  # causes before effects
    hidden: set[int] = field(default_factory=set)
    noise: Callable[[tuple[int, int]], Array] | None = None  # unit variance; normal if None
    memory: float = 0.0  # autocorrelation of the noise along rows
    bends: dict[tuple[int, int], Callable[[Array], Array]] = field(
        default_factory=dict
    )  # of standardised causes
    spread: Array | None = None  # how the log of each variable's noise rises with its standardised mean
    uneven: bool = False  # whether it does so below the middle only
    sweeps: int = 1  # how often equations are evaluated: more than once where there are loops
    keep: Callable[[Array, NDArray[np.int64]], Array] | None = (
        None  # probability of each row to be in the table
    )
    observe: list[Callable[[list[Array]], list[Array]]] = field(default_factory=list)  # rows -> what is seen
    record: list[Callable[[list[Array]], list[Array]]] = field(default_factory=list)  # -> what is written down

    @property
    def size(self) -> int:
        return self.weights.shape[1]

    @property
    def changed(self) -> list[tuple[int, int]]:
        """Changed effects as (cause, effect)."""
        return [(int(j), int(i)) for i, j in np.argwhere(self.weights[0] != self.weights[1])]

    def some(self, share: float, least: int = 1) -> NDArray[np.int64]:
        """Some of the variables, drawn at random."""
        return self.rng.permutation(self.size)[: max(least, round(share * self.size))]

    def signs(self, count: int) -> Array:
        return self.rng.choice([-1.0, 1.0], count)

    def add(self, effects: dict[int, float], scale: float, *, causes: dict[int, float] | None = None) -> int:
        """A new variable, alike in both conditions: a root, or an effect of `causes` and last of all."""
        new = self.size
        self.weights = np.pad(self.weights, ((0, 0), (0, 1), (0, 1)))
        self.scale = np.pad(self.scale, ((0, 0), (0, 1)), constant_values=scale)
        self.shift = np.pad(self.shift, ((0, 0), (0, 1)))
        if self.spread is not None:
            self.spread = np.pad(self.spread, (0, 1))
        for i, weight in effects.items():
            self.weights[:, i, new] = weight
        for j, weight in (causes or {}).items():
            self.weights[:, new, j] = weight
        self.order = [*self.order, new] if causes else [new, *self.order]
        return new


# ------------------------------------------------------------------------------------------------- models


def draw_plan(rng: np.random.Generator, most: int = MOST) -> Plan:
    """Two linear models whose size, density, weights and differences are drawn at random."""
    p = int(rng.integers(6, 9)) if most <= 8 or rng.random() < 0.8 else int(rng.integers(9, most + 1))
    first, second = np.exp(rng.uniform(np.log(150), np.log(3000), 2)).astype(int)
    rows = (int(first), int(second if rng.random() < 0.3 else first))
    parents = rng.uniform(0.7, min(3.5, (p - 1) / 2))
    lower = np.tril(rng.random((p, p)) < 2 * parents / (p - 1), -1)
    one = np.where(lower, rng.choice([-1, 1], (p, p)) * rng.uniform(0.25, 1.0, (p, p)), 0.0)
    if rng.random() < 0.5:
        one /= np.sqrt(np.maximum(1, lower.sum(axis=1) / 2))[:, None]
    scale = np.exp(rng.uniform(-0.4, 0.4, p)) if rng.random() < 0.5 else np.ones(p)
    plan = Plan(rng, rows, np.stack([one, one]), np.stack([scale, scale]), np.zeros((2, p)), list(range(p)))
    change_effects(plan)
    for what, least, most_by in ((plan.scale, 0.15, 0.6), (plan.shift, 0.2, rng.choice([1.0, 3.0]))):
        if rng.random() < 0.5:
            moved = plan.some(rng.random() ** 2, 0)
            by = plan.signs(len(moved)) * rng.uniform(least, most_by, len(moved))
            what[1, moved] = what[1, moved] * np.exp(by) if what is plan.scale else by * plan.scale[0, moved]
    return plan


def change_effects(plan: Plan) -> None:
    """Change some effects of the second model, few or many, in any way; or change a gain."""
    rng, second = plan.rng, plan.weights[1]
    if rng.random() < 0.15:
        return
    if rng.random() < 0.15:
        target = int(np.argmax((second != 0).sum(axis=1) + rng.random(plan.size)))
        second[target] *= np.exp(rng.choice([-1, 1]) * rng.uniform(0.5, 1.3))
        return
    few = plan.some(0.25) if rng.random() < 0.4 else np.arange(plan.size)  # few mechanisms, or any
    places = [(int(i), j) for i in few for j in range(i)]
    rng.shuffle(places)
    places.sort(key=lambda place: second[place] == 0 and rng.random() < 0.7)
    for i, j in places[: int(np.exp(rng.uniform(0, np.log(plan.size + 5))))]:
        old = second[i, j]
        kind = rng.integers(3) if old else 3
        new = rng.choice([-1, 1]) * rng.uniform(0.25, 1.0)
        second[i, j] = (0.0, old * rng.uniform(1.5, 2.5), -old * rng.uniform(0.3, 1.2), new)[kind]


def truth_of(plan: Plan, names: dict[int, str]) -> Truth:
    """What a claim about the columns has to say to be right."""
    direct = {(names[j], names[i]) for j, i in plan.changed if not {i, j} & plan.hidden}
    through = {
        (names[source], names[target])
        for j, i in plan.changed
        for source in measured(plan, j, causes=True) | (stand_ins(plan, j) - {i})
        for target in measured(plan, i, causes=False)
        if source != target
    }
    lines = {(names[j], names[i]) for j, i in changed_lines(plan)} - direct - through
    return Truth(frozenset(direct), frozenset(through - direct), frozenset(lines))


def changed_lines(plan: Plan) -> list[tuple[int, int]]:
    """Effects (cause, effect) that the same straight line does not fit in both conditions, given all causes."""
    if not plan.bends and plan.keep is None and not plan.record:
        return []
    tables = simulate(replace(plan, rng=np.random.default_rng(0), rows=(MANY, MANY), memory=0.0))
    for record in plan.record:
        tables = record(tables)
    found = []
    for i in (k for k in range(plan.size) if k not in plan.hidden):
        causes = [j for j in np.flatnonzero(plan.weights[:, i].any(axis=0)).tolist() if j not in plan.hidden]
        slopes = [
            np.linalg.lstsq(x[:, causes] - x[:, causes].mean(0), x[:, i] - x[:, i].mean(), rcond=None)[0]
            for x in tables
        ]
        spread = [np.sqrt(np.mean([x[:, k].var() for x in tables])) for k in (*causes, i)]
        gap = np.abs(slopes[0] - slopes[1]) * np.array(spread[:-1]) / spread[-1]
        found += [(j, i) for j, size in zip(causes, gap, strict=True) if size > SAME]
    return found


def measured(plan: Plan, k: int, *, causes: bool) -> set[int]:
    """A variable if it has a column; if not, its nearest causes, or effects, that have one."""
    if k not in plan.hidden:
        return {k}
    links = plan.weights[:, k] if causes else plan.weights[:, :, k]
    return {end for j in np.flatnonzero(links.any(axis=0)).tolist() for end in measured(plan, j, causes=causes)}


def stand_ins(plan: Plan, k: int) -> set[int]:
    """The effects of an unmeasured variable."""
    return measured(plan, k, causes=False) if k in plan.hidden else set()


# --------------------------------------------------------------------------------------------------- rows


def simulate(plan: Plan) -> list[Array]:
    """Rows of all variables in both conditions."""
    times = 1 if plan.keep is None else 8
    label = np.repeat([0, 1], [times * n for n in plan.rows])
    noise = draw_noise(plan, label)
    x = np.zeros((len(label), plan.size))
    for _ in range(plan.sweeps):
        for i in plan.order:
            mean = plan.shift[label, i]
            for j in np.flatnonzero(plan.weights[:, i].any(axis=0)).tolist():
                mean = mean + plan.weights[label, i, j] * bent(x[:, j], plan.bends.get((i, j)))
            own = plan.scale[label, i] * noise[:, i]
            if plan.spread is not None and plan.spread[i]:
                own = own * np.exp(plan.spread[i] * np.clip(standard(mean), -3, 0.0 if plan.uneven else 3))
            x[:, i] = mean + own
    kept = [np.flatnonzero(label == k) for k in (0, 1)]
    if plan.keep is not None:
        drawn = plan.rng.random(len(label)) < plan.keep(x, label)
        kept = [rows[drawn[rows]][:n] for rows, n in zip(kept, plan.rows, strict=True)]
    return [x[rows] for rows in kept]


def draw_noise(plan: Plan, label: NDArray[np.int64]) -> Array:
    shape = (len(label), plan.size)
    noise = plan.rng.normal(size=shape) if plan.noise is None else plan.noise(shape)
    if plan.memory:
        for t in range(1, len(noise)):
            if label[t] == label[t - 1]:
                noise[t] = plan.memory * noise[t - 1] + np.sqrt(1 - plan.memory**2) * noise[t]
    return noise


def standard(x: Array) -> Array:
    return (x - x.mean()) / (x.std() or 1.0)


def bent(x: Array, bend: Callable[[Array], Array] | None) -> Array:
    """An effect of x; bends act on it in units of its standard deviation over both conditions."""
    return x if bend is None else x.std() * bend(standard(x))


# ------------------------------------------------------------------------------------------------- breaks


def clean(plan: Plan, strength: float) -> None:
    """Linear, Gaussian, everything measured."""


def tails(plan: Plan, strength: float) -> None:
    """Student's noise, 12 degrees of freedom down to 3."""
    df = 3 + 9 * (1 - strength) ** 2
    plan.noise = lambda shape: plan.rng.standard_t(df, shape) * np.sqrt((df - 2) / df)


def skew(plan: Plan, strength: float) -> None:
    """Log-normal noise."""
    s = 0.3 + 0.7 * strength
    middle, sd = np.exp(s**2 / 2), np.sqrt((np.exp(s**2) - 1) * np.exp(s**2))
    plan.noise = lambda shape: (plan.rng.lognormal(0, s, shape) - middle) / sd


BENDS: tuple[Callable[[Array], Array], ...] = (
    lambda z: 1.5 * np.tanh(z),
    lambda z: np.minimum(np.exp(0.7 * z), 12) - 1.3,
    lambda z: 0.6 * z**2 * (np.abs(z) < 4) + 9.6 * (np.abs(z) >= 4),
    lambda z: 3 * np.maximum(z + 2, 0) ** 4 / (2**4 + np.maximum(z + 2, 0) ** 4),  # Hill
)


def bends(plan: Plan, strength: float) -> None:
    """Bent effects, alike in both conditions, and moved ranges."""
    for i, j in np.argwhere(plan.weights.any(axis=0)).tolist():
        if plan.rng.random() < 0.7:
            shape, part = BENDS[plan.rng.integers(len(BENDS))], strength * plan.rng.uniform(0.5, 1)
            plan.bends[i, j] = lambda z, shape=shape, part=part: (1 - part) * z + part * shape(z)
    move_ranges(plan)


def multiplicative(plan: Plan, strength: float) -> None:
    """Noise that grows with the mean, and moved ranges."""
    plan.spread = np.where(
        plan.rng.random(plan.size) < 0.7, strength * plan.rng.uniform(0.2, 0.8, plan.size), 0
    )
    move_ranges(plan)


def uneven(plan: Plan, strength: float) -> None:
    """Noise that is larger, or smaller, below the middle of a variable's range; ranges move."""
    size = strength * plan.rng.uniform(0.3, 1.0, plan.size) * plan.signs(plan.size)
    plan.spread = np.where(plan.rng.random(plan.size) < 0.8, size, 0)
    plan.uneven = True
    move_ranges(plan)


def move_ranges(plan: Plan) -> None:
    """Other means and variances for some variables, most of them early in the order."""
    moved = [i for k, i in enumerate(plan.order) if plan.rng.random() < 0.8 / (1 + k / 2)]
    plan.shift[1, moved] += plan.signs(len(moved)) * plan.rng.uniform(0, 3.0, len(moved)) * plan.scale[0, moved]
    plan.scale[1, moved] *= np.exp(plan.rng.uniform(-0.5, 0.5, len(moved)))


def add_hidden(plan: Plan, strength: float) -> list[int]:
    """Unmeasured causes of a third to two thirds of the variables, one or two of them."""
    new = []
    for _ in range(plan.rng.integers(1, 3)):
        on = plan.some(plan.rng.uniform(0.3, 0.67), 2)
        size = plan.signs(len(on)) * plan.rng.uniform(0.3, 1.0, len(on)) * (0.3 + 0.7 * strength)
        new.append(plan.add(dict(zip(on.tolist(), size.tolist(), strict=True)), 1.0))
    plan.hidden |= set(new)
    return new


def hidden(plan: Plan, strength: float) -> None:
    """Unmeasured common causes that are alike in both conditions."""
    add_hidden(plan, strength)


def hidden_moves(plan: Plan, strength: float) -> None:
    """Unmeasured common causes whose variance, or mean, differs."""
    for h in add_hidden(plan, 0.5):
        if plan.rng.random() < 0.7:
            plan.scale[1, h] *= np.exp(plan.signs(1)[0] * strength)
        else:
            plan.shift[1, h] += 2 * plan.signs(1)[0] * strength


def covariate(plan: Plan, strength: float) -> None:
    """A covariate that was left out, such as age: it acts on many variables, and its spread and mean differ."""
    on = plan.some(plan.rng.uniform(0.4, 0.9), 2)
    size = plan.rng.normal(size=len(on)) * (0.3 + 0.5 * strength)
    age = plan.add(dict(zip(on.tolist(), size.tolist(), strict=True)), 1.0)
    plan.hidden.add(age)
    plan.shift[1, age] = plan.rng.uniform(0, 1.5)
    plan.scale[1, age] = plan.rng.uniform(0.6, 1.6)


def selection(plan: Plan, strength: float) -> None:
    """Rows are in the second table, or in both, the rather the higher a variable is."""
    on, both = int(plan.rng.integers(plan.size)), plan.rng.random() < 0.4
    slope = 0.5 + 2.5 * strength

    def keep(x: Array, label: NDArray[np.int64]) -> Array:
        chance = 1 / (1 + np.exp(-slope * standard(x[:, on])))
        return np.where((label == 1) | both, chance, 1.0)

    plan.keep = keep


def error(plan: Plan, strength: float) -> None:
    """Errors of measurement, up to .6 standard deviations of the noise, in some columns or all."""
    size = np.where(plan.rng.random(plan.size) < plan.rng.choice([0.4, 1.0]), 0.1 + 0.5 * strength, 0.0)

    def blur(tables: list[Array]) -> list[Array]:
        sd = np.pad(size * plan.scale[0, : len(size)], (0, tables[0].shape[1] - len(size)))
        return [x + sd * plan.rng.normal(size=x.shape) for x in tables]

    plan.observe.append(blur)


def feedback(plan: Plan, strength: float) -> None:
    """One to three effects back from later variables to earlier ones, weak enough to settle."""
    for _ in range(plan.rng.integers(1, 4)):
        forth = np.argwhere(np.tril(plan.weights.all(axis=0), -1))
        if not len(forth):
            return
        i, j = forth[plan.rng.integers(len(forth))]
        plan.weights[:, j, i] = plan.signs(1)[0] * (0.2 + 0.6 * strength)
        while max(np.abs(np.linalg.eigvals(np.abs(w))).max() for w in plan.weights) > 0.8:
            plan.weights[:, j, i] *= 0.7
    plan.sweeps = 30


def donors(plan: Plan, strength: float) -> None:
    """Rows of 4 to 12 donors per condition, whose intercepts differ."""
    count, sd = int(plan.rng.integers(4, 13)), 0.1 + 0.4 * strength

    def nest(tables: list[Array]) -> list[Array]:
        nested = []
        for x in tables:
            own = sd * plan.rng.normal(size=(count, x.shape[1])) * x.std(axis=0)
            nested.append(x + own[plan.rng.integers(count, size=len(x))])
        return nested

    plan.observe.append(nest)


def proxies(plan: Plan, strength: float) -> None:
    """The causes in some changed effects are not measured; two or three noisy columns stand in for each."""
    causes = list({j for j, _ in plan.changed}) or [int(plan.rng.integers(plan.size))]
    for j in plan.rng.permutation(causes)[: plan.rng.integers(1, 3)].tolist():
        total = np.sqrt(plan.scale[0, j] ** 2 + (plan.weights[0, j] ** 2).sum())
        for _ in range(plan.rng.integers(2, 4)):
            plan.add({}, total * (0.2 + 0.6 * strength), causes={j: plan.rng.uniform(0.7, 1.3)})
        plan.hidden.add(j)


def copies(plan: Plan, strength: float) -> None:
    """One to three columns correlated .9 to .98 with the cause in a changed effect, or with any variable."""
    causes = [j for j, _ in plan.changed] or list(range(plan.size))
    source = int(plan.rng.choice(causes))
    total = np.sqrt(plan.scale[0, source] ** 2 + (plan.weights[0, source] ** 2).sum())
    r = 0.9 + 0.08 * strength
    for _ in range(plan.rng.integers(1, 4)):
        plan.add({}, total * np.sqrt(1 / r**2 - 1), causes={source: 1.0})


def counts(plan: Plan, strength: float) -> None:
    """Counts with log-linear rates, log1p; at full strength most are zero, and some are lost besides."""
    depth, lost = 1.5 - 2.5 * strength + 0.5 * plan.rng.normal(), plan.rng.choice([0.0, 0.3]) * strength

    def count(tables: list[Array]) -> list[Array]:
        middle, sd = np.vstack(tables).mean(axis=0), np.vstack(tables).std(axis=0)
        drawn = []
        for x in tables:
            rate = np.exp(np.clip(depth + 1.2 * (x - middle) / sd, -8, 8))
            there = plan.rng.random(x.shape) >= lost
            drawn.append(np.log1p(plan.rng.poisson(rate) * there))
        return drawn

    plan.record.append(count)


def outliers(plan: Plan, strength: float) -> None:
    """Up to 3 % of rows, or of cells, lie 4 to 10 standard deviations off."""
    share, whole = 0.002 + 0.028 * strength, plan.rng.random() < 0.5

    def contaminate(tables: list[Array]) -> list[Array]:
        spoilt = []
        for x in tables:
            hit = plan.rng.random((len(x), 1 if whole else x.shape[1])) < share
            far = plan.rng.choice([-1, 1], x.shape) * plan.rng.uniform(4, 10, x.shape) * x.std(axis=0)
            spoilt.append(np.where(hit, x + far, x))
        return spoilt

    plan.observe.append(contaminate)


def ties(plan: Plan, strength: float) -> None:
    """Rounded to as coarse as a standard deviation, or cut off at a limit of detection."""
    grid, floor = 0.05 + strength * plan.rng.uniform(0.3, 1.0), plan.rng.choice([0.0, 0.4]) * strength

    def record(tables: list[Array]) -> list[Array]:
        both = np.vstack(tables)
        sd, least = both.std(axis=0), np.quantile(both, floor, axis=0)
        return [np.maximum(np.round(x / (grid * sd)) * grid * sd, least) for x in tables]

    plan.record.append(record)


def restless(plan: Plan, strength: float) -> None:
    """Changes are not few: noise variances and intercepts of many variables differ, up to all of them."""
    for what, most in ((plan.scale, 0.9), (plan.shift, 1.5)):
        moved = plan.some(strength)
        by = plan.signs(len(moved)) * plan.rng.uniform(0.1, most, len(moved))
        what[1, moved] = what[0, moved] * np.exp(by) if what is plan.scale else by * plan.scale[0, moved]


def series(plan: Plan, strength: float) -> None:
    """Rows of a time series: the noise is autocorrelated, up to .8."""
    plan.memory = 0.1 + 0.7 * strength


Break = Callable[[Plan, float], None]
WORLDS: dict[str, Break] = {
    "clean": clean,
    "tails": tails,
    "skew": skew,
    "bends": bends,
    "multiplicative": multiplicative,
    "uneven": uneven,
    "hidden": hidden,
    "hidden_moves": hidden_moves,
    "covariate": covariate,
    "selection": selection,
    "error": error,
    "feedback": feedback,
    "donors": donors,
    "proxies": proxies,
    "copies": copies,
    "counts": counts,
    "outliers": outliers,
    "ties": ties,
    "series": series,
    "restless": restless,
}
# What may be broken besides: it changes how rows come about, and goes with every model.
BESIDES = (
    *("tails", "skew", "bends", "hidden", "hidden_moves", "selection"),
    *("error", "donors", "outliers", "ties", "series", "restless"),
)


def draw(world: str, seed: int, number: int, most: int = MOST) -> DataSet:
    """Data set `number` of a world; it depends on its arguments alone."""
    rng = np.random.default_rng([seed, list(WORLDS).index(world), number])
    plan = draw_plan(rng, most)
    breaks = {world: float(rng.random())}
    if world != "clean":
        others = [name for name in rng.permutation(BESIDES).tolist() if name != world]
        shares, least, most_of = zip(*OTHER_BREAKS, strict=True)
        kind = rng.choice(len(shares), p=shares)
        breaks |= {name: float(rng.random()) for name in others[: rng.integers(least[kind], most_of[kind] + 1)]}
    for name, strength in breaks.items():
        WORLDS[name](plan, strength)
    tables = simulate(plan)
    for step in (*plan.observe, *plan.record):
        tables = step(tables)
    columns = [k for k in rng.permutation(plan.size).tolist() if k not in plan.hidden]
    names = {k: f"x{place}" for place, k in enumerate(columns)}
    first, second = (x[:, columns] for x in tables)
    return DataSet(world, first, second, tuple(names.values()), truth_of(plan, names), breaks)
