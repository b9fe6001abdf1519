"""
Quickstart: what a drug changed
===============================

Two tables in, the changed effects out. The embedded example: 11 proteins in single cells, without and
with U0126, a drug that blocks Mek (Sachs et al. 2005).
"""

import matplotlib.pyplot as plt

import diffdag as dd

without, drug = dd.load_sachs_pair("u0126")
result = dd.DifferenceDAG().fit(without, drug).result_
print(result.summary().splitlines()[0])
result.edges.round(2)

# %%
# The difference DAG, causes on top. Lines without arrowheads are changes whose direction the data do not
# tell.

fig, ax = plt.subplots(figsize=(6, 4.8), layout="constrained")
result.plot(ax)
plt.show()

# %%
# The difference of the two precision matrices (inverse covariances) lies underneath. It shows which
# variables take part at all, before anything is said about directions.

fig, ax = plt.subplots(figsize=(7, 6))
result.plot_precision(ax)
plt.show()

# %%
# ``result.save("answer")`` writes all of it, with a report to explore in a browser.
