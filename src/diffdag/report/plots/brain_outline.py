"""The outline of a brain around the places of its regions, seen from several sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Polygon

from diffdag._base.arrays import FloatArray
from diffdag.report.layout.theme import Theme
from diffdag.report.plots.chart import LABEL

MARGIN = 9.0  # mm between the outermost regions and the outline
AROUND = (26.0, 22.0)  # mm around the outline, across and up, for letters and nose


class View(NamedTuple):
    """One direction to look from."""

    across: int  # which coordinate goes to the right: 0, 1 or 2 for x, y and z
    up: int  # which goes up
    turned: bool  # whether `across` grows to the left
    title: str
    left: str  # what is written at the sides
    right: str

    def project(self, places: FloatArray) -> FloatArray:
        """Places (m, 3) as seen from here: (m, 2)."""
        flat: FloatArray = np.array(places, float).reshape(-1, 3)[:, [self.across, self.up]]
        return flat * (-1, 1) if self.turned else flat


VIEWS: Mapping[str, View] = {
    "top": View(0, 1, False, "from above", "L", "R"),
    "left": View(1, 2, True, "from the left", "front", "back"),
    "right": View(1, 2, False, "from the right", "back", "front"),
    "front": View(0, 2, True, "from the front", "R", "L"),
    "back": View(0, 2, False, "from behind", "L", "R"),
}


def outline_of(places: FloatArray, view: View) -> FloatArray:
    """The outline in one view, the same on both sides where both can be seen."""
    points = view.project(places)
    return outline(np.vstack([points, points * (-1, 1)]) if view.across == 0 else points)


def outline(points: FloatArray) -> FloatArray:
    """An ellipse around points, as wide to as high as they are: the same shape for few regions and for many.

    >>> corners = np.array([[-50.0, -50], [-50, 50], [50, -50], [50, 50]])
    >>> curve = outline(corners)
    >>> bool(np.linalg.norm(curve, axis=1).min() > 50), bool(np.abs(curve).max() < 80)
    (True, True)
    """
    low, high = points.min(axis=0), points.max(axis=0)
    axes = (high - low) / 2
    axes = np.maximum(axes, max(0.4 * axes.max(), 1.0))  # where regions are in a line, or at one place
    farthest = np.hypot(*((points - (low + high) / 2) / axes).T).max()
    turn = np.radians(np.arange(-180, 180))
    around = np.column_stack([np.cos(turn), np.sin(turn)])
    curve: FloatArray = (low + high) / 2 + (farthest * axes + MARGIN) * around
    return curve


def draw_outline(ax: Axes, theme: Theme, view: View, curve: FloatArray, height: float | None = None) -> None:
    """The outline, the midline and the nose where they can be seen, and which side is which.

    `height`, in mm, is what the axes show from bottom to top; as much as needed if left out.
    """
    low, high = curve.min(axis=0), curve.max(axis=0)
    middle, height = (low + high) / 2, float(high[1] - low[1] + AROUND[1]) if height is None else height
    skin: dict[str, Any] = {"facecolor": theme.box, "edgecolor": theme.grey, "linewidth": 1.2}
    if view.up == 1:
        tip = float(curve[np.abs(curve[:, 0]).argsort()[:12], 1].max())
        nose = [(-7.0, tip - 1.5), (0.0, tip + 8), (7.0, tip - 1.5)]
        ax.add_patch(Polygon(nose, closed=False, zorder=0, **skin))
    ax.add_patch(Polygon(curve, zorder=0.5, **skin))
    if view.across == 0:
        line = [low[1] + 4, high[1] - 4]
        ax.plot([0, 0], line, color=theme.grey, linewidth=0.7, alpha=0.7, linestyle=(0, (5, 4)), zorder=0.6)
    for text, x, align in ((view.left, low[0] - 10, "left"), (view.right, high[0] + 10, "right")):
        ax.text(x, high[1] - 2, text, ha=align, va="top", fontsize=LABEL, color=theme.soft)
    ax.set_xlim(low[0] - AROUND[0] / 2, high[0] + AROUND[0] / 2)
    ax.set_ylim(middle[1] - height / 2, middle[1] + height / 2)
    ax.set_aspect("equal")
    ax.set_axis_off()
