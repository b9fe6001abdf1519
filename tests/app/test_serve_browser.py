"""The page of diffdag serve in a real browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from browser import becomes
from playwright.sync_api import expect

from diffdag.model.simulate import simulate_pair

pytestmark = pytest.mark.browser
PHONE = {"width": 390, "height": 844}
HOSTILE = ['<img src=x onerror="alert(1)">', 'quote\'s "both" & more', "🧬 emoji", "x" * 200]
PATIENCE = 90_000  # the first fit may compile
RNG = np.random.default_rng(5)


class Place(NamedTuple):
    """Where a server is, and the folder of its temporary files."""

    address: str
    folder: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
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
        yield Place(process.stdout.readline().strip(), folder)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130


@pytest.fixture
def page(visit, place):
    """The page, entered; nothing may complain, ask elsewhere or pop up."""
    asked = []
    visit.page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    visit.page.goto(place.address)
    yield visit.page
    assert visit.complaints == []
    assert asked == []
    base = place.address.split("?")[0]
    assert [url for url in visit.requests if not url.startswith((base, "data:", "blob:"))] == []


def write(folder, name, frame):
    frame.to_csv(folder / name, index=False)
    return folder / name


def fits_the_screen(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def check(page):
    page.click("text=Check the data")
    page.wait_for_selector("#checks:not([hidden])", timeout=PATIENCE)


REFUSED = f"422 ({HTTPStatus(422).phrase})"  # Python 3.13 has other words for it


def forgive_refusal(visit, status=REFUSED):
    """Chromium notes on the console that a request was refused; the test wanted that."""
    becomes(visit.page, lambda page: visit.complaints)
    (said,) = visit.complaints
    assert said == f"Failed to load resource: the server responded with a status of {status}"
    visit.complaints.clear()


def ends(locator, words):
    expect(locator).to_have_text(re.compile(re.escape(words) + r"\s*$"), use_inner_text=True)


def starts(locator, words):
    expect(locator).to_have_text(re.compile(r"^\s*" + re.escape(words)), use_inner_text=True)


def choose(page, *paths):
    for number, path in enumerate(paths):
        page.set_input_files(f"#file-{number}", path)
        page.locator(".slot").nth(number).get_by_text(f"{path.name}, ").wait_for()


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
    expect(page.locator("#overview")).to_have_text(
        "<i>before: 300 rows. after: 300 rows. 4 of 5 columns will be compared."
    )
    expect(page.locator("#remarked")).to_contain_text(
        "is not numeric ('<script>alert(2)</script>' in line 2 of '<i>before.csv')"
    )
    expect(page.locator("[name=missing][value=drop]")).to_be_checked()
    expect(page.locator("#gap-costs")).to_have_text("costs 3 of 300 rows of <i>before", use_inner_text=True)
    page.click("#others-title")
    for name in HOSTILE:
        expect(page.locator("#checks")).to_contain_text(name, use_inner_text=True)
    becomes(page, fits_the_screen)

    page.click("text=Leave out the columns with gaps")
    ends(page.locator("#overview"), "3 of 5 columns will be compared.")
    page.get_by_label(HOSTILE[1]).select_option("compare")
    page.get_by_text("costs 3 of 300 rows of <i>before").wait_for(timeout=PATIENCE)
    page.uncheck("#sure")
    page.click("#start")
    page.wait_for_selector("#answer:not([hidden])", timeout=PATIENCE)
    expect(page.locator("#headline")).to_contain_text("possible edges changed", use_inner_text=True)
    report = page.frame_locator("#report")
    expect(report.locator("h1")).to_contain_text("possible edges changed", use_inner_text=True)
    becomes(page, fits_the_screen)
    expect(page.locator(".step:visible")).to_have_text(["1", "2", "3", "4"])
    with page.expect_download() as saved:
        page.click("text=Table of changes")
    assert saved.value.suggested_filename == "edges.csv"
    assert (saved.value.path()).read_text(encoding="utf-8").startswith("source,")

    page.reload()  # as if the browser had been closed
    page.wait_for_selector("#answer:not([hidden])")
    expect(page.locator("#jobs .name")).to_have_text("1. <i>before and after", use_inner_text=True)

    choose(page, write(tmp_path, "other.csv", first))
    expect(page.locator("#report")).to_be_hidden()  # it is about other files
    expect(page.locator(".step:visible")).to_have_text(["1"])
    becomes(page, fits_the_screen)
    page.click("text=Show it again")
    expect(page.locator("#report")).to_be_visible()
    expect(page.locator("#answer-title")).to_be_focused()


def test_groups_and_cancel(page, visit, tmp_path):
    rows = RNG.standard_normal((600, 40))
    rows[400:, 1:] += 0.5 * rows[400:, :-1]  # where nothing changed, resamples end too soon to be cancelled
    table = pd.DataFrame(rows, columns=[f"x{k}" for k in range(40)])
    table["group"] = np.repeat(["<b>one", "two", "three"], 200)
    choose(page, write(tmp_path, "cells.csv", table))
    check(page)
    expect(page.locator("#group")).to_have_value("group")
    expect(page.locator("#first option").first).to_have_text("<b>one (200 rows)")
    page.click("#others-title")
    page.get_by_label("x7", exact=True).select_option("drop")
    page.select_option("#first", "three")  # which was the second, in the order of the alphabet
    page.get_by_text("three: 200 rows. <b>one: 200 rows. 39 of 40 columns").wait_for(timeout=PATIENCE)
    expect(page.get_by_label("x7", exact=True)).to_have_value("drop")
    page.get_by_text("Checking what is chosen.").wait_for(state="hidden", timeout=PATIENCE)
    expect(page.locator("#problem")).to_be_hidden()

    said = {"error": "nothing of the kind", "log": "<b>the log"}
    page.route("**/look", lambda route: route.fulfill(status=500, json=said))
    page.select_option("#first", "two")
    page.get_by_text("Nothing of the kind.").wait_for()
    expect(page.locator("#first")).to_have_value("three")
    expect(page.locator("#start")).to_be_enabled()
    page.click("text=The log, for the report")
    expect(page.locator("#fault-log")).to_have_text("<b>the log", use_inner_text=True)
    forgive_refusal(visit, "500 (Internal Server Error)")

    for _ in range(2):
        page.click("#start")
        page.wait_for_selector("#cancel:visible")
        expect(page.locator("#progress-name")).to_have_text("three and <b>one", use_inner_text=True)
        page.click("#cancel")
        page.get_by_text("Cancelled. You can change the options above").wait_for()
        page.locator("#progress-title:focus").wait_for()
    expect(page.locator("#cancel")).to_be_hidden()
    expect(page.locator("#log")).to_be_hidden()
    listed = page.locator("#jobs li")
    expect(listed.nth(0).locator(".what")).to_have_text("was cancelled", use_inner_text=True)
    page.evaluate("document.activeElement.blur()")
    listed.nth(1).get_by_text("Show").click()
    page.locator("#progress-title:focus").wait_for()


def donors(seed):
    """Rows of four donors that differ much, a site, and a kit that is the condition."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, 4, 120)
    table = pd.DataFrame(
        rng.standard_normal((120, 3)) + 2 * rng.standard_normal((4, 3))[own], columns=["x", "y", "z"]
    )
    return table.assign(
        donor=[f"<b>{seed}{k}" for k in own], site=rng.choice(["n", "s", "e"], 120), kit=f"kit {seed}"
    )


def test_roles_labels_and_which_comes_first(page, tmp_path):
    page.set_viewport_size(PHONE)
    page.emulate_media(color_scheme="dark")
    choose(page, write(tmp_path, "one.csv", donors(1)), write(tmp_path, "two.csv", donors(2)))
    check(page)
    asked = page.get_by_role("group", name="Column 'donor' has 8 different values")
    expect(asked.get_by_label("Rows are nested in it")).to_be_checked()
    site = page.get_by_role("group", name="Column 'site' has 3 different values. What is it?")
    expect(site.get_by_label("Something else")).to_be_checked()
    expect(asked).to_contain_text("Such as '<b>10', '<b>11' and '<b>12'", use_inner_text=True)
    becomes(page, fits_the_screen)

    page.get_by_label("kit").select_option("adjust")
    page.get_by_text("Covariate 'kit' coincides with the condition ('kit 1' in one").wait_for(timeout=PATIENCE)
    page.get_by_label("kit").select_option("cluster")
    starts(page.locator("#one-only"), "Rows can be nested in one column only: 'donor' is left out now.")
    expect(asked.get_by_label("Something else")).to_be_checked()
    asked.get_by_label("Rows are nested in it").check()
    expect(page.get_by_label("kit")).to_have_value("drop")
    site.get_by_label("Something else").focus()
    page.keyboard.press("ArrowUp")
    expect(site.get_by_label("A covariate")).to_be_checked()

    page.get_by_label("Call the first condition").fill("<i>placebo")
    expect(page.locator("#direction")).to_have_text(
        "Changes are told from <i>placebo to two.", use_inner_text=True
    )
    page.focus("#swap")
    page.keyboard.press("Enter")
    expect(page.locator("#direction")).to_have_text(
        "Changes are told from two to <i>placebo.", use_inner_text=True
    )
    page.get_by_text("is 'kit 2' in two and 'kit 1' in <i>placebo").wait_for(timeout=PATIENCE)
    expect(page.locator("#swap")).to_be_focused()
    expect(page.locator(".slot .state")).to_have_text([re.compile("^two.csv, "), re.compile("^one.csv, ")])
    expect(page.get_by_label("Call the second condition")).to_have_value("<i>placebo")
    starts(
        page.locator("#overview"),
        "two: 120 rows. <i>placebo: 120 rows. 3 of 6 columns will be compared, 1 taken",
    )
    ends(page.locator("#overview"), "; rows are nested in 'donor'.")
    expect(page.locator("#problem")).to_be_hidden()
    becomes(page, fits_the_screen)

    page.uncheck("#sure")
    with page.expect_request("**/jobs") as sent:
        page.click("#start")
    wanted = sent.value.post_data_json["options"]
    names = ("drop", "adjust", "cluster", "missing", "labels")
    assert [wanted[name] for name in names] == [[], ["site"], "donor", "drop", ["two", "<i>placebo"]]
    expect(page.locator("#progress-name, #answer-name").filter(visible=True)).to_have_text("two and <i>placebo")
    page.wait_for_selector("#answer:not([hidden])", timeout=PATIENCE)


GATE = """() => {
    const pass = window.fetch;
    window.fetch = async (path, asked) => {
        const { signal, ...rest } = asked;
        const answer = await pass(path, rest);
        if (path === "look") await new Promise((open) => {
            window.openGate = () => { delete document.body.dataset.gate; open(); };
            document.body.dataset.gate = "shut";
        });
        return answer;
    };
}"""


def test_an_answer_that_comes_late_is_for_nobody(page, tmp_path):
    table = pd.DataFrame(RNG.standard_normal((60, 4)), columns=["a", "b", "c", "\u202ed"])
    one, two, three = (
        write(tmp_path, f"{name}.csv", table + k) for k, name in enumerate(["one", "two", "three"])
    )
    choose(page, one, two)
    page.evaluate(GATE)
    page.click("#look")
    page.wait_for_selector("[data-gate]")
    choose(page, one, three)
    page.evaluate("openGate()")
    page.wait_for_timeout(300)
    expect(page.locator("#checks")).to_be_hidden()
    expect(page.locator("#start")).to_be_disabled()
    expect(page.locator("#data-says")).to_have_text("", use_inner_text=True)

    page.click("#look")
    page.wait_for_selector("[data-gate]")
    page.evaluate("openGate()")
    page.wait_for_selector("#checks:visible")
    starts(page.locator("#overview"), "one: 60 rows. three: 60 rows.")
    page.click("#others-title")
    expect(page.locator("#fine label").last).to_have_text("\\u202ed", use_inner_text=True)
    page.get_by_label("a", exact=True).select_option("drop")
    page.get_by_label("Remove the second file").click()  # before what is chosen is looked at
    page.wait_for_timeout(900)
    expect(page.locator("#again")).to_have_text("", use_inner_text=True)  # and no complaints


def test_long_lists_say_what_they_leave_out(page, tmp_path):
    numbers = pd.DataFrame(RNG.standard_normal((6, 2105)), columns=[f"x{k}" for k in range(2105)]).round(3)
    numbers.iloc[:, :1050] = 1.0
    choose(page, write(tmp_path, "one.csv", numbers), write(tmp_path, "two.csv", numbers + 1))
    check(page)
    ends(page.locator("#overview"), "1,055 of 2,105 columns will be compared.")
    starts(page.locator("#remarked li").last, "and 50 more")
    page.click("#others-title")
    starts(page.locator("#fine li").last, "and 55 more")


def test_the_door_leads_to_the_page(visit, place):
    (door,) = place.folder.glob("diffdag-serve-*/open.html")
    visit.page.goto(door.as_uri())
    visit.page.get_by_text("up to 1 MB each").wait_for()
    assert "token" not in visit.page.url
    visit.page.reload()
    visit.page.get_by_text("up to 1 MB each").wait_for()
    assert visit.complaints == []


def test_files_that_are_refused(page, visit, tmp_path):
    large = tmp_path / "large.csv"
    large.write_bytes(b"a,b\n" + b"1,2\n" * 300_000)
    page.get_by_text("up to 1 MB each").wait_for()
    page.set_input_files("#file-0", large)
    expect(page.locator(".slot:first-child .state")).to_contain_text(
        "large.csv has 1.2 MB, and this page takes up to 1 MB."
    )
    assert not [url for url in visit.requests if "/files" in url]
    expect(page.locator("#look")).to_be_disabled()
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
    expect(page.locator("#file-1")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # removes the second file, and goes back to where another is chosen
    expect(page.locator("#data .slot:nth-child(2) .state")).to_have_text("no file yet", use_inner_text=True)
    expect(page.locator("#file-1")).to_be_focused()
    for name in ("look", "example"):
        page.keyboard.press("Tab")
        expect(page.locator(f"#{name}")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    said = page.locator("#data-says.bad")
    said.wait_for(timeout=PATIENCE)
    expect(said).to_have_text(
        "Line 3 of 'one.csv' has 1 field and the header has 2; check the export.", use_inner_text=True
    )
    forgive_refusal(visit)
