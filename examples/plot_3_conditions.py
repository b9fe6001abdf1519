"""
Several conditions, one causal order
====================================

Three drugs, each compared with the same untreated cells. One order of the variables serves all
comparisons: each drug helps to direct the edges of the others.
"""

import matplotlib.pyplot as plt

import diffdag as dd

drugs = ["akt-inhibitor", "u0126", "ly294002"]
tables = {"baseline": dd.load_sachs_pair("u0126")[0]}
tables |= {name: dd.load_sachs_pair(name)[1] for name in drugs}
result = dd.fit_conditions(tables, reference="baseline")
print("order:", ", ".join(result.order))

# %%
# One row per edge, one column per drug: the effect at baseline minus the effect under the drug.

result.matrix.round(2)

# %%
# How the effects changed:

result.kinds.head(20)

# %%
# One of the comparisons as a picture; ``result.plot()`` shows all of them side by side.

fig, ax = plt.subplots(figsize=(6, 4.8), layout="constrained")
result.pairs["baseline", "u0126"].plot(ax)
plt.show()
