"""
Dense networks: the difference, not two networks subtracted
===========================================================

Each of ten variables has six neighbours on average, and three effects change. Methods that learn each
network and subtract have to get some sixty edges right to get the difference right. Learning the
difference directly does not. ``order`` is the default method, ``paper`` Algorithm 1 of Ghoshal, Bello
and Honorio, with the few rows here.
"""

import matplotlib.pyplot as plt
import pandas as pd

import diffdag as dd
from diffdag.reproduce.scoring import score

METHODS = ["order", "ges", "mmhc", "paper"]

rows = []
for seed in range(5):
    pair = dd.simulate_pair(10, neighbours=6, changes=3, rng=seed)
    first = pair.first.sample(2000, rng=seed + 100)
    second = pair.second.sample(2000, rng=seed + 200)
    found = dd.compare_methods(first, second, methods=METHODS)
    for name, graph in found.graphs.items():
        reached = score(pair.changed, graph)
        rows.append({"method": name, "claimed": reached.claimed, "f1": reached.f1})

# %%
# ``claimed`` counts edges in the result; three would be right. ``f1`` is 1 if all edges are found,
# directed, and none besides.

means = pd.DataFrame(rows).groupby("method").mean().loc[METHODS]
means.round(2)

# %%
# The two in the middle learn two networks. Most of what they claim are errors of one network or the
# other.

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
left.barh(means.index, means["claimed"], color="#999999")
left.axvline(3, color="#D55E00")
left.set(title="edges claimed (line: changed)")
right.barh(means.index, means["f1"], color="#0072B2")
right.set(title="F1, mean of 5 pairs", xlim=(0, 1))
for ax in (left, right):
    ax.invert_yaxis()
plt.show()
