"""The two kinds of fit, for annotations."""

from __future__ import annotations

from typing import TypeAlias

from diffdag.ordersearch.fit import OrderFit
from diffdag.paper.fit import PaperFit

Fit: TypeAlias = OrderFit | PaperFit
