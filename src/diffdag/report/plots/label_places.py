"""Where to write names beside points so that they hide as little as possible.

One name after the other takes the best of some rings of places around its point: greedy labelling of point
features, the simplest method compared by Christensen, Marks and Shieber (1995).
"""

from __future__ import annotations

import numpy as np

from diffdag._base.arrays import FloatArray

ANGLES = np.linspace(0, 2 * np.pi, 24, endpoint=False)
# The penalty of a place: for the share of the name under another one, for each dot and each piece of a line
# under it, for pointing to the centre, and for each height of the name it is away.
OVERLAP, DOT, LINE, INWARDS, AWAY = 40.0, 6.0, 1.0, 0.8, 0.35
RINGS = (1.2, 1.8, 2.6, 3.6, 5.0, 7.0)  # heights of a name


def place_labels(points: FloatArray, sizes: FloatArray, lines: FloatArray, centre: FloatArray) -> FloatArray:
    """Return the centres of the names of points (m, 2), away from `centre` where nothing else decides.

    `sizes` (m, 2) are widths and heights of the names, `lines` (k, 2) points along what is drawn besides.

    >>> points = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> places = place_labels(points, np.full((2, 2), [4.0, 1.0]), np.empty((0, 2)), np.array([0.5, 0.0]))
    >>> bool(places[0, 0] < places[1, 0])
    True
    """
    placed = np.empty((0, 4))
    result: FloatArray = np.array(points, float)
    outside_first = np.argsort(-np.linalg.norm(points - centre, axis=1), kind="stable")
    for k in outside_first:
        places = _candidates(points[k], sizes[k])
        boxes = np.hstack([places - sizes[k] / 2, places + sizes[k] / 2])
        penalty = OVERLAP * _overlaps(boxes, placed) / sizes[k].prod()
        penalty += DOT * _inside(boxes, points) + LINE * _inside(boxes, lines)
        penalty += _detour(places - points[k], points[k] - centre, sizes[k, 1])
        best = int(np.argmin(penalty))
        result[k] = places[best]
        placed = np.vstack([placed, boxes[best]])
    return result


def _candidates(point: FloatArray, size: FloatArray) -> FloatArray:
    """Rings of places around a point, as much wider than high as the name is."""
    rays = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])
    rings = [rays * (size / 2 + size[1] * (ring - 0.5)) for ring in RINGS]
    result: FloatArray = point + np.vstack(rings)
    return result


def _overlaps(boxes: FloatArray, placed: FloatArray) -> FloatArray:
    """Area that each box shares with those already placed."""
    low = np.maximum(boxes[:, None, :2], placed[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], placed[None, :, 2:])
    area: FloatArray = np.clip(high - low, 0, None).prod(axis=2).sum(axis=1)
    return area


def _inside(boxes: FloatArray, points: FloatArray) -> FloatArray:
    """How many points each box covers."""
    inside = (points[None] >= boxes[:, None, :2]) & (points[None] <= boxes[:, None, 2:])
    return np.asarray(inside.all(axis=2).sum(axis=1), float)


def _detour(steps: FloatArray, outwards: FloatArray, height: float) -> FloatArray:
    length = np.linalg.norm(steps, axis=1)
    along = steps @ outwards / (length * max(float(np.linalg.norm(outwards)), 1e-9))
    penalty: FloatArray = AWAY * length / height - INWARDS * along
    return penalty
