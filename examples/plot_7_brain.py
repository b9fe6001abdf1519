"""
Connections over the outline of a brain
=======================================

If variables are regions with coordinates, the changed edges can be drawn where they are. The places
below are rough, and the series are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import diffdag as dd

# %%
# Coordinates in mm: x to the right, y to the front, z up. ``read_coordinates("regions.csv")`` of
# ``diffdag.tables.readers.coordinates`` reads them from a table.

one_side = {
    "visual": (10, -90, 2),
    "parietal": (40, -55, 48),
    "temporal": (58, -22, 0),
    "motor": (38, -18, 58),
    "insula": (38, 8, 0),
    "frontal": (38, 42, 20),
    "cingulate": (6, 32, 22),
    "hippocampus": (26, -22, -16),
}
places = {f"{name} R": place for name, place in one_side.items()}
places |= {f"{name} L": (-x, y, z) for name, (x, y, z) in one_side.items()}

# %%
# Two states, 600 scans each; every scan remembers the one before.


def series(model, scans, seed):
    noise = np.random.default_rng(seed).standard_normal((scans, len(places)))
    for now in range(1, scans):
        noise[now] += 0.4 * noise[now - 1]
    spread = np.linalg.inv(np.eye(len(places)) - model.weights).T
    return pd.DataFrame(noise @ spread, columns=list(places))


pair = dd.simulate_pair(len(places), neighbours=4, changes=5, weights=(0.4, 0.9), rng=8)
rest, task = series(pair.first, 600, seed=1), series(pair.second, 600, seed=2)
result = dd.DifferenceDAG(effective_samples="auto").fit(rest, task).result_
result.edges[["source", "target", "change", "delta"]].round(2)

# %%
# From above, and from the left.

fig, axes = plt.subplots(1, 2, figsize=(11, 6), layout="constrained")
result.plot_brain(places, axes[0], view="top")
result.plot_brain(places, axes[1], view="left")
plt.show()
