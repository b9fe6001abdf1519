"""
How sure is each change?
========================

Fits to resamples of both tables show which changes come out again. Their shares, calibrated on
simulations, give each edge the probability that it is right, if the data are like the simulated ones;
``fdr`` keeps a list with few false edges.
"""

import matplotlib.pyplot as plt

import diffdag as dd

# %%
# Eight variables, four changes, and few rows: not everything can be sure. This data set was chosen, among
# many in which all edges found are right, because a false edge is found and has the least confidence. A
# single data set can also be sure of a false edge; the probabilities are those of many.

pair = dd.simulate_pair(8, neighbours=4, changes=4, rng=67)
first, second = pair.first.sample(200, rng=1), pair.second.sample(200, rng=2)
result = dd.DifferenceDAG(resamples=40).fit(first, second).result_

table = result.edges[["source", "target", "delta", "confidence"]]
table["right"] = [edge in pair.edges for edge in zip(table["source"], table["target"], strict=True)]
table.round(2)

# %%
# Every pair that some resample found, with the share of resamples that did. A share is not yet a
# probability: what half of the resamples find is right in four of five cases, what a tenth find hardly
# ever.

shares = result.stability.shares
true = {frozenset(edge) for edge in pair.edges}
names = [f"{share.source} - {share.target}" for share in shares]
real = [frozenset((share.source, share.target)) in true for share in shares]

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
colours = ["#0072B2" if yes else "#AAAAAA" for yes in real]
ax.barh(names, [share.found for share in shares], color=colours)
ax.invert_yaxis()
ax.set(xlabel="share of resamples with a change", title="blue: really changed")
plt.show()

# %%
# Did anything change at all? A permutation test comes with the resamples.

print(f"p = {result.global_test.pvalue:.3f}")

# %%
# And the list in which, on average, one edge in twenty at most is false:

strict = dd.DifferenceDAG(resamples=40, fdr=0.05).fit(first, second).result_
strict.edges[["source", "target", "directed", "confidence"]].round(2)
