"""
One edge, seen in the rows
==========================

Before you believe a changed effect, look at it: both clouds, both lines. Shown are partial residuals, the
target minus the fitted contributions of its other causes, so the slopes are the effects that are stated.
"""

import matplotlib.pyplot as plt

import diffdag as dd

without, drug = dd.load_sachs_pair("u0126")
result = dd.DifferenceDAG().fit(without, drug, labels=("without", "u0126")).result_
arrows = result.edges[result.edges["directed"]].head(2)

fig, axes = plt.subplots(1, len(arrows), figsize=(5.5 * len(arrows), 4.5), layout="constrained", squeeze=False)
for ax, source, target in zip(axes[0], arrows["source"], arrows["target"], strict=True):
    result.plot_edge(source, target, ax)
plt.show()

# %%
# Two things to look for. Do the slopes differ by more than the clouds are wide? And do both clouds lie over
# the same range of the cause? If they do not, a bend in one and the same curve looks like two slopes;
# ``support`` is then ``range`` or ``unclear``.

arrows[["source", "target", "change", "delta", "stderr", "support"]].round(2)

# %%
# The lines are there for your own pictures as well:

for source, target in zip(arrows["source"], arrows["target"], strict=True):
    scatter = result.scatter_of(source, target)
    print(f"{source} -> {target}: slopes {scatter.first.slope:.2f} and {scatter.second.slope:.2f}")
