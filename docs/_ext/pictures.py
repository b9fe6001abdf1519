"""The directive ``picture``: code of a page whose figure is shown below it.

The code goes on from the ``>>>`` sessions above it on the same page, so that text and pictures show one
analysis. Its last line has to give an Axes or a Figure::

    ```{picture} What the drug changed
    result.plot()
    ```
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import html
import io
import os
import re
import tempfile
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FENCE = re.compile(r"^```\{picture\}", re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Picture(SphinxDirective):
    """Run the sessions since the last picture, then the code, and show what it drew."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        state = self.env.temp_data.setdefault("picture", {"count": 0, "names": {"__name__": "page"}})
        above = FENCE.split(Path(self.env.doc2path(self.env.docname)).read_text(encoding="utf-8"))
        source = "\n".join(self.content)
        with _elsewhere():
            for example in _examples(above[state["count"]]):
                exec(compile(example.source, "<page>", "single"), state["names"])
            drawn = _value(source, state["names"])
        state["count"] += 1
        name = f"{self.env.docname.replace('/', '-')}-{state['count']}.svg"
        place = Path(self.env.app.outdir) / "_images" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        _save(drawn, place)
        return [self._code(source), self._figure(name)]

    def _code(self, source: str) -> nodes.literal_block:
        return nodes.literal_block(source, source, language="python")

    def _figure(self, name: str) -> nodes.figure:
        up = "../" * self.env.docname.count("/")
        caption = self.arguments[0]
        # Sphinx copies only images that lie among the sources; this one is at its place already.
        image = f'<img class="picture" src="{up}_images/{name}" alt="{html.escape(caption)}">'
        figure = nodes.figure("", nodes.raw("", image, format="html"))
        figure += nodes.caption("", caption)
        return figure


def _examples(text: str) -> list[doctest.Example]:
    parser = doctest.DocTestParser()
    return [example for block in PYTHON.findall(text) for example in parser.get_examples(block)]


@contextlib.contextmanager
def _elsewhere():
    """A folder that is thrown away, for code that saves something; nothing is printed."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def _value(source: str, names: dict) -> object:
    """Run all lines; the value of the last expression."""
    tree = ast.parse(source)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr), "the last line of a picture gives an Axes or a Figure"
    exec(compile(tree, "<picture>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<picture>", "eval"), names)


def _save(drawn, place: Path) -> None:
    figure = getattr(drawn, "figure", drawn)
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "diffdag"}):
        figure.savefig(place, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close("all")


def setup(app: Sphinx) -> dict[str, bool]:
    mpl.use("agg")
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": False}
