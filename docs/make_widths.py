"""Fill src/diffdag/report/layout/widths.py: how wide the characters of DejaVu Sans are, from matplotlib's copy.

    .venv/bin/python docs/make_widths.py

Only the lines between ``WIDTHS = {`` and ``}`` are replaced.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from matplotlib.font_manager import findfont, get_font

from diffdag._base.atomic import write_atomic
from diffdag.report.layout import picture, widths

BLOCKS = [(0x20, 0x52F), (0x1E00, 0x22FF)]  # Latin, Greek, Cyrillic; punctuation, arrows, operators


def main() -> None:
    path = Path(str(widths.__file__))
    table = "".join(map(block, BLOCKS))
    text = re.sub(r"(?<=^WIDTHS = \{\n).*?(?=^\})", table, path.read_text("utf-8"), flags=re.M | re.S)
    print(write_atomic(path, text))


def block(ends: tuple[int, int]) -> str:
    first, last = ends
    lines = textwrap.wrap("".join(map(digits, range(first, last + 1))), 34 * widths.DIGITS)
    return "".join([f"    0x{first:X}: (\n", *(f'        "{line}"\n' for line in lines), "    ),\n"])


def digits(code: int) -> str:
    """The advance of one character in hexadecimal digits, 0 where the font lacks it."""
    font = get_font(findfont(picture.FONT))
    font.set_size(widths.UNITS, 72.0)
    advance = font.load_char(code).linearHoriAdvance if font.get_char_index(code) else 0
    return f"{round(advance / 65536):0{widths.DIGITS}x}"


if __name__ == "__main__":
    main()
