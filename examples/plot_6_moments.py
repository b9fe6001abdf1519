"""
Rows that never leave their owner
=================================

A fit needs the number of rows, the means and the covariances: the *moments*. They add up. So three
hospitals can be analysed together although no patient's row leaves its hospital, and tables of any
length fit in memory.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import diffdag as dd

# %%
# Each hospital has healthy and diseased people. It reduces its rows to moments and sends a small file.

pair = dd.simulate_pair(6, neighbours=3, changes=2, weights=(0.5, 1.0), rng=5)
names = ["age", "pressure", "sugar", "weight", "lipids", "score"]
post = Path(tempfile.mkdtemp())
for hospital in range(3):
    for group, model in (("healthy", pair.first), ("diseased", pair.second)):
        rows = model.sample(300 + 100 * hospital, rng=[hospital, group == "healthy"])
        moments = dd.Moments.from_array(rows, names=names)  # rows stay where they are
        moments.save(post / f"{group}-{hospital}.npz")  # this is sent

print({path.name: path.stat().st_size for path in sorted(post.iterdir())[:2]}, "bytes")

# %%
# The centre adds them up. The sum is exactly that of all rows together.


def total(group):
    parts = [dd.Moments.load(path) for path in sorted(post.glob(f"{group}-*.npz"))]
    return sum(parts[1:], start=parts[0])


healthy, diseased = total("healthy"), total("diseased")
print(healthy.n, "and", diseased.n, "people")

# %%
# And it fits. What needs rows, resamples for one, is not possible here; the checks that need none are
# made.

result = dd.DifferenceDAG().fit_moments(healthy, diseased).result_
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
result.plot(ax)
plt.show()
