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

fig, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
result.plot_edge("Erk", "PKA", axes[0])
result.plot_edge("JNK", "P38", axes[1])
plt.show()

# %%
# On the left a change that nobody can overlook: with the drug, PKA follows Erk. On the right a small
# one: the line is steeper with the drug, but both clouds are wide. Its confidence is lower, too.
#
# The lines are there for your own pictures as well:

scatter = result.scatter_of("Erk", "PKA")
print(f"slopes {scatter.first.slope:.2f} and {scatter.second.slope:.2f}")
