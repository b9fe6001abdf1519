"""Is there one best order?"""

from __future__ import annotations

from collections.abc import Mapping

from diffdag.evidence import Check
from diffdag.result import DifferenceResult
from diffdag.validation import join_names

# Directions whose reversal costs less than this are pointed out; a likelihood ratio of exp(3) is 20.
SLIM = 3.0


def check_order(result: DifferenceResult) -> Check:
    """Edges without direction, directions with a slim margin, and whether the search met its answer twice."""
    settings = result.settings
    starts, reached = settings.get("starts"), settings.get("starts_at_optimum")
    tie = settings.get("tie")
    limit = float(tie) if isinstance(tie, (int, float)) else None
    margins = settings.get("margins")
    found = {str(k): float(v) for k, v in margins.items()} if isinstance(margins, Mapping) else {}
    least = min(found.values(), default=None)
    if isinstance(starts, int) and starts and isinstance(reached, int) and reached < 2:
        says = (
            f"only {reached} of {starts} starts of the search found these changes, so that a better order may "
            "exist; compare fewer variables, or give what is known (tiers, directions)"
        )
        return Check("order", False, says, reached, 2)
    tied = [str(edge) for edge in result.edge_list if not edge.directed]
    if tied:
        says = (
            f"the data do not settle the direction of {join_names(tied)}: other orders explain the changes as "
            "well; take these pairs without direction, or give what is known (tiers, directions)"
        )
        return Check("order", False, says, least, limit)
    slim = [name for name, margin in sorted(found.items(), key=lambda item: item[1]) if margin < SLIM]
    if slim:
        says = f"the direction of {join_names(slim)} is settled by a slim margin; all others more clearly"
        return Check("order", True, says, least, limit)
    return Check("order", True, "no other order explains the changes nearly as well", least, limit)
