"""Is there one best order?"""

from __future__ import annotations

from collections.abc import Mapping

from diffdag._base.words import join_names
from diffdag.results.evidence import Check
from diffdag.results.result import DifferenceResult

# A direction is nearly tied if its reversal costs no more than this: a likelihood ratio of less than 5.
SLIM = 1.5
# So many near-ties make an alarm; with few rows a single one is common, and is told by the edge itself.
TIES = 2


def check_order(result: DifferenceResult) -> Check:
    """Edges without direction, directions nearly tied, and whether the search met its answer twice."""
    settings = result.settings
    starts, reached = settings.get("starts"), settings.get("starts_at_optimum")
    margins = settings.get("margins")
    found = {str(k): float(v) for k, v in margins.items()} if isinstance(margins, Mapping) else {}
    if isinstance(starts, int) and starts and isinstance(reached, int) and reached < 2:
        says = (
            f"only {reached} of {starts} starts of the search found these changes, so that a better order may "
            "exist; compare fewer variables, or give what is known (tiers, directions)"
        )
        return Check("order", False, says)
    tied = [str(edge) for edge in result.edge_list if not edge.directed]
    slim = [name for name, margin in sorted(found.items(), key=lambda item: item[1]) if margin <= SLIM]
    open_ones = max(tied, slim, key=len)
    if len(open_ones) >= TIES:
        says = (
            f"the directions of {join_names(open_ones)} are open or settled by a slim margin: other orders "
            "explain the changes about as well; take these pairs without direction, or give what is known "
            "(tiers, directions)"
        )
        return Check("order", False, says, len(open_ones), TIES)
    if open_ones:
        says = f"the direction of {open_ones[0]} is open or settled by a slim margin; all others are clearer"
        return Check("order", True, says, 1, TIES)
    return Check("order", True, "no other order explains the changes nearly as well", 0, TIES)
