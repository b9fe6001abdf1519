"""Manners in notebooks: what estimators look like, and bars, in a real kernel."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

import diffdag as dd
from diffdag._base.bars import open_bars
from diffdag._base.progress import progress_callback

HOSTILE = "<img src=x onerror=alert(1)>"
PAGE = '<body style="background:{};color:{};font-family:sans-serif"><div id="it">{}</div></body>'


def tables(names: list[str]) -> tuple[Any, Any]:
    import pandas as pd  # noqa: PLC0415

    rng = np.random.default_rng(0)
    first, second = (pd.DataFrame(rng.standard_normal((300, 3)), columns=names) for _ in range(2))
    first[names[1]] += first[names[0]]
    return first, second


class TestEstimator:
    def test_before_a_fit(self) -> None:
        html = dd.DifferenceDAG()._repr_html_()
        assert "not fitted yet" in html
        assert "all settings at their defaults" in html

    def test_what_was_set_and_what_came_out(self) -> None:
        model = dd.DifferenceDAG(penalty=2.0, rng=0, tiers=[[HOSTILE], ["b", "c"]])
        model.fit(*tables([HOSTILE, "b", "c"]))
        html = model._repr_html_()
        assert "<code>penalty</code> 2.0" in html
        assert "possible edges changed" in html
        assert "300 rows" in html
        assert "<img" not in html
        assert "&lt;img" in html
        assert "covariance" not in html  # left at its default

    def test_any_parameter_can_be_shown(self) -> None:
        model = dd.DifferenceDAG(
            required=np.array([["a", "b"]]), order=["x" * 999], rng=np.random.default_rng()
        )
        html = model._repr_html_()
        assert re.findall("<code>(.*?)</code>", html) == ["order", "required", "rng"]
        assert len(html) < 2000

    @pytest.mark.parametrize("colours", [("#fff", "#111"), ("#111", "#eee")])
    def test_it_takes_the_colours_of_the_notebook(self, visit: Any, colours: tuple[str, str]) -> None:
        model = dd.DifferenceDAG(penalty=2.0, tiers=[[HOSTILE + "x" * 200], ["b", "c"]])
        model.fit(*tables([HOSTILE + "x" * 200, "b", "c"]))
        visit.page.set_viewport_size({"width": 390, "height": 844})
        visit.page.set_content(PAGE.format(*colours, model._repr_html_()))
        assert HOSTILE in visit.page.inner_text("#it")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
        seen = visit.page.evaluate("getComputedStyle(document.querySelector('#it b')).color")
        assert seen == ("rgb(17, 17, 17)" if colours[1] == "#111" else "rgb(238, 238, 238)")
        assert visit.complaints == []
        assert visit.requests == []


class Screen:
    """Stands in for the place in a notebook that shows a bar."""

    def __init__(self) -> None:
        self.drawn: list[str] = []

    def __call__(self, content: dict[str, str], **_: object) -> Screen:
        self.drawn.append(content["text/html"])
        return self

    update = __call__


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    screen = Screen()
    monkeypatch.setattr("IPython.display.display", screen)
    return screen


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffdag._base.progress.in_notebook", lambda: True)


@pytest.mark.usefixtures("notebook")
class TestBars:
    def test_they_are_drawn_ten_times_a_second_at_most(self, screen: Screen) -> None:
        now = 0.0
        with open_bars(notebook=True) as bars:
            bars.get_time = lambda: now
            counting = bars.add_task("Counting", total=1000)
            for step in range(1, 1001):
                now += 0.002
                bars.update(counting, completed=step, refresh=True)
        assert 15 <= len(screen.drawn) <= 24
        assert 'max="1000"' in screen.drawn[5]
        assert "left 0:00:02" in screen.drawn[5]
        assert "Counting 1,000/1,000 elapsed 0:00:02<" in screen.drawn[-1]
        assert "<progress" not in screen.drawn[-1]

    def test_work_that_stops_or_begins_again(self, screen: Screen) -> None:
        with contextlib.suppress(ZeroDivisionError), progress_callback(True, "Starting") as told:
            assert told is not None
            told(5, 5, "One")
            told(1, 5, "One")
            told(2, None, "<b>")
            1 / 0  # noqa: B018
        assert "Starting" in screen.drawn[0]
        assert "Starting" not in screen.drawn[-1]
        assert "One 1/5 elapsed 0:00:00<" in screen.drawn[-1]
        assert "&lt;b&gt; 2 rows elapsed" in screen.drawn[-1]
        assert "<progress" not in screen.drawn[-1]

    def test_work_without_steps(self, screen: Screen) -> None:
        with progress_callback(True, "Thinking"):
            pass
        assert "<progress style" in screen.drawn[0]
        assert re.search(r"Thinking ... elapsed 0:00:00</div>", screen.drawn[-1])


CELLS = [
    """
import diffdag as dd, numpy as np, pandas as pd, tempfile
rows = np.random.default_rng(0).standard_normal((200, 3))
first, second = pd.DataFrame(rows[:100]), pd.DataFrame(rows[100:])
""",
    "dd.DifferenceDAG(resamples=20, n_jobs=1).fit(first, second, progress=True)",
    "dd.fit_conditions({'a': first, 'b': second, 'c': first + second.to_numpy()}, progress=True)",
    "dd.settings_path(first, second, model=dd.DifferenceDAG(n_jobs=1), progress=True); None",
    """
from diffdag.refits import resample_fits
resample_fits(first, second, model=dd.DifferenceDAG(n_jobs=1), fits=20, progress=True); None
""",
    """
with tempfile.TemporaryDirectory() as folder:
    first.rename(columns=str).to_parquet(folder + "/first.parquet")
    moments = dd.Moments.from_parquet(folder + "/first.parquet", progress=True)
moments
""",
]


@pytest.mark.slow
def test_a_real_kernel_shows_bars_and_answers() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = [[output.get("data", {}) for output in cell.outputs] for cell in notebook.cells]
    words = [[data.get("text/plain", "") for data in cell] for cell in shown]
    titles = (
        "Permuting rows 1,000/1,000",
        "Checking assumptions 1/1",
        "Resampling (bootstrap) 16/16",
        "Resampling (halves) 4/4",
        "Trying settings 5/5",
    )
    assert [line.partition(" elapsed ")[0] for line in words[1][0].splitlines()] == list(titles)
    assert "fitted" in shown[1][-1]["text/html"]
    assert words[2][0].startswith("Comparisons 3/3 ")
    assert "possible edges changed" in shown[2][-1]["text/html"]
    assert words[3][0].startswith("Trying settings ")
    assert words[4][0].startswith("Resampling (bootstrap) 20/20 ")
    assert words[5] == [words[5][0], "<Moments: 100 rows, 3 variables>"]
    assert words[5][0].startswith("Reading rows 100/100 ")
