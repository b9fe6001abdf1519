"""Colours and dashes of all pictures, on a light and on a dark background.

The colours are those of Okabe and Ito (2008), safe for colour-blind readers, made darker or lighter until each
stands out from its background by at least 3:1 (WCAG 2.2, 1.4.11). The dashes say the same again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from diffdag._base.errors import InputError

ThemeName = Literal["light", "dark"]

# Lengths of dash and gap in points; nothing for a solid line.
DASHES: Mapping[str, tuple[float, ...]] = {
    "added": (),
    "removed": (7.0, 3.5),
    "strengthened": (12.0, 2.5, 2.5, 2.5),
    "weakened": (2.2, 2.2),
    "reversed-sign": (7.0, 2.5, 2.2, 2.5, 2.2, 2.5),
    "changed": (),
    "undirected": (),
    "range": (1.5, 4.5),  # explained by a moved range
}


@dataclass(frozen=True)
class Theme:
    """Everything that has a colour."""

    background: str
    ink: str  # text
    soft: str  # lesser text and axes
    grey: str  # lines of lesser things
    faint: str  # lines that should hardly be seen
    box: str  # of a variable
    changed_box: str  # of a variable whose own mechanism changed
    open_box: str  # of a variable whose place in the order is open
    border: str  # of boxes
    first: str  # the two conditions
    second: str
    kinds: Mapping[str, str]  # kinds of change
    several: tuple[str, ...]  # lines that only have to be told apart
    diverging: tuple[str, ...]  # from negative numbers through 0 to positive ones


THEMES: Mapping[str, Theme] = {
    "light": Theme(
        background="#FFFFFF",
        ink="#15202B",
        soft="#59636E",
        grey="#7A8490",
        faint="#D5DBE1",
        box="#EEF2F6",
        changed_box="#FBE3CC",
        open_box="#FFFFFF",
        border="#48525E",
        first="#0072B2",
        second="#C24E00",
        kinds={
            "added": "#00855F",
            "removed": "#A83C00",
            "strengthened": "#0072B2",
            "weakened": "#B37E00",
            "reversed-sign": "#A8327A",
            "changed": "#3C4652",
            "undirected": "#7A8490",
            "range": "#94887C",
        },
        several=("#0072B2", "#C24E00", "#00855F", "#B04A87", "#A87400", "#2A8FBD"),
        diverging=("#053A66", "#4F9BD0", "#F7F8F9", "#F0954F", "#7A2B00"),
    ),
    "dark": Theme(
        background="#12181F",
        ink="#E6EBF0",
        soft="#A9B4C0",
        grey="#8C97A4",
        faint="#36414D",
        box="#243040",
        changed_box="#5A3A1E",
        open_box="#12181F",
        border="#8C97A4",
        first="#62B8F5",
        second="#F58A4B",
        kinds={
            "added": "#24B888",
            "removed": "#F0703A",
            "strengthened": "#62B8F5",
            "weakened": "#F5CE62",
            "reversed-sign": "#F0A0D0",
            "changed": "#D5DCE3",
            "undirected": "#8C97A4",
            "range": "#707C70",
        },
        several=("#62B8F5", "#F58A4B", "#24B888", "#F0A0D0", "#F5CE62", "#9AD7FF"),
        diverging=("#B5E0FF", "#3D8FCC", "#1D2630", "#D96F2E", "#FFD0AE"),
    ),
}


def theme_called(name: str) -> Theme:
    """Return the theme of this name.

    >>> theme_called("dark").background
    '#12181F'
    """
    if not isinstance(name, str) or name not in THEMES:
        raise InputError(f"theme is {name!r}; expected one of {', '.join(THEMES)}")
    return THEMES[name]
