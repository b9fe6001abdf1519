"""The page of diffdag serve in a real browser."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from diffdag.sem import simulate_pair

PHONE = {"width": 390, "height": 844}
HOSTILE = ['<img src=x onerror="alert(1)">', 'quote\'s "both" & more', "🧬 emoji", "x" * 200]
PATIENCE = 90_000  # the first fit may compile
RNG = np.random.default_rng(5)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    process = subprocess.Popen(
        [sys.executable, "-m", "diffdag", "serve", "--port", "0", "--no-browser", "--limit", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(folder)},
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


@pytest.fixture
def page(visit, address):
    """The page, entered; nothing may complain, ask elsewhere or pop up."""
    asked = []
    visit.page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    visit.page.goto(address)
    yield visit.page
    assert visit.complaints == []
    assert asked == []
    base = address.split("?")[0]
    assert [url for url in visit.requests if not url.startswith((base, "data:", "blob:"))] == []


def write(folder, name, frame):
    frame.to_csv(folder / name, index=False)
    return folder / name


def fits_the_screen(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def check(page):
    page.click("text=Check the data")
    page.wait_for_selector("#checks:not([hidden])", timeout=PATIENCE)


def forgive_refusal(visit):
    """Chromium notes on the console that a request was refused; the test wanted that."""
    (said,) = visit.complaints
    assert said == "Failed to load resource: the server responded with a status of 422 (Unprocessable Entity)"
    visit.complaints.clear()


def test_a_newcomers_way_with_hostile_names(page, tmp_path):
    pair = simulate_pair(p=4, neighbours=2, changes=1, weights=(0.8, 1.0), rng=4)
    first, second = (
        pd.DataFrame(m.sample(300, rng=k), columns=HOSTILE) for k, m in enumerate((pair.first, pair.second))
    )
    first["word <b>"], second["word <b>"] = "<script>alert(2)</script>", 1.0
    first.loc[:2, HOSTILE[1]] = np.nan
    assert "token" not in page.url
    page.set_viewport_size(PHONE)
    page.set_input_files("#file-0", write(tmp_path, "<i>before.csv", first))
    page.set_input_files("#file-1", write(tmp_path, "after.csv", second))
    page.get_by_text("<i>before.csv, ").wait_for()
    page.get_by_text("after.csv, ").wait_for()
    check(page)
    assert (
        page.inner_text("#overview") == "<i>before: 300 rows. after: 300 rows. 4 of 5 columns will be compared."
    )
    assert "(“<script>alert(2)</script>” in row 1 of <i>before)" in page.inner_text("#remarked")
    assert page.inner_text("#gap-says").endswith("are left out: 3 of 300 rows of <i>before.")
    page.click("#others-title")
    assert [name in page.inner_text("#checks") for name in HOSTILE] == [True] * 4
    assert fits_the_screen(page)

    page.click("text=Leave out the columns with gaps")
    assert page.inner_text("#overview").endswith("3 of 5 columns will be compared.")
    page.get_by_label(HOSTILE[1]).check()
    page.get_by_text("are left out: 3 of 300 rows of <i>before.").wait_for(timeout=PATIENCE)
    page.uncheck("#sure")
    page.click("#start")
    page.wait_for_selector("#answer:not([hidden])", timeout=PATIENCE)
    assert "possible edges changed" in page.inner_text("#headline")
    report = page.frame_locator("#report")
    assert "possible edges changed" in report.locator("h1").inner_text()
    assert fits_the_screen(page)
    with page.expect_download() as saved:
        page.click("text=Table of changes")
    assert saved.value.suggested_filename == "edges.csv"
    assert (saved.value.path()).read_text(encoding="utf-8").startswith("source,")

    page.reload()  # as if the browser had been closed
    page.wait_for_selector("#answer:not([hidden])")
    assert page.inner_text("#jobs .name") == "1. <i>before and after"


def test_groups_and_cancel(page, tmp_path):
    table = pd.DataFrame(RNG.standard_normal((600, 40)), columns=[f"x{k}" for k in range(40)])
    table["group"] = np.repeat(["<b>one", "two", "three"], 200)
    page.set_input_files("#file-0", write(tmp_path, "cells.csv", table))
    check(page)
    assert page.input_value("#group") == "group"
    assert page.locator("#first option").all_inner_texts()[0] == "<b>one (200 rows)"
    page.select_option("#first", "two")  # which was the second
    page.wait_for_selector("#first:not([disabled])", timeout=PATIENCE)
    assert page.inner_text("#overview").startswith("two: 200 rows. <b>one: 200 rows. 40 of 40 columns")
    page.click("#start")
    page.wait_for_selector("#progress:not([hidden])")
    assert page.inner_text("#progress-name") == "two and <b>one"
    page.click("#cancel")
    page.get_by_text("Cancelled. You can change the options above").wait_for()
    assert page.is_hidden("#cancel")
    assert "was cancelled" in page.inner_text("#jobs li:first-child")


def test_files_that_are_refused(page, visit, tmp_path):
    large = tmp_path / "large.csv"
    large.write_bytes(b"a,b\n" + b"1,2\n" * 300_000)
    page.get_by_text("up to 1 MB each").wait_for()
    page.set_input_files("#file-0", large)
    assert "large.csv has 1.2 MB, and this page takes up to 1 MB." in page.inner_text(
        ".slot:first-child .state"
    )
    assert not [url for url in visit.requests if "/files" in url]
    assert page.is_disabled("#look")
    page.set_input_files("#file-0", write(tmp_path, "notes.docx", pd.DataFrame({"a": [1]})))
    page.get_by_text("'notes.docx' has no known file type").wait_for()
    visit.complaints[:] = [
        said for said in visit.complaints if "422" not in said
    ]  # how Chromium notes a refusal


DROP = """() => {
    const dataTransfer = new DataTransfer();
    for (const name of ["one.csv", "two.csv"]) dataTransfer.items.add(new File(["a,b\\n1,2\\n3\\n"], name));
    document.querySelector("#data").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true }));
}"""


def test_two_files_are_dropped_and_the_keyboard_is_enough(page, visit):
    page.evaluate(DROP)
    page.get_by_text("one.csv, 1 kB").wait_for()
    page.get_by_text("two.csv, 1 kB").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "file-1"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # removes the second file, and goes back to where another is chosen
    assert page.inner_text("#data .slot:nth-child(2) .state") == "no file yet"
    reached = [page.evaluate("document.activeElement.id")]
    for _ in range(2):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
    assert reached == ["file-1", "look", "example"]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    said = page.locator("#data-says.bad")
    said.wait_for(timeout=PATIENCE)
    assert said.inner_text() == "Row 2 of 'one.csv' has 1 field and the header has 2; check the export."
    forgive_refusal(visit)
