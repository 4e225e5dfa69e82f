"""The report in a browser: it opens soon, asks nothing of the network, and can be pointed at and walked through."""

import html
import shutil
from pathlib import Path

import pytest
from snapshots import study_of

from workflows.report import report, write_front

CHROMIUM = shutil.which("chromium") or ("/usr/bin/chromium" if Path("/usr/bin/chromium").exists() else None)
OPTIONS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
pytestmark = pytest.mark.compiled_only
LONGEST = 30
"""Seconds, on a machine that has other things to do."""


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield started
        started.close()


class Opened:
    """A page in a browser, and what it complained of and asked for."""

    def __init__(self, browser, path, width=1400):
        self.complaints, self.requests = [], []
        self.page = browser.new_page(viewport={"width": width, "height": 900})
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri(), wait_until="commit")

    def until(self, state, frame=None):
        (frame or self.page).wait_for_selector(f"html[data-{state}]", state="attached", timeout=60_000)
        return self


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    study = study_of(150, study="A study <b>of</b> " + "a very long name " * 12)
    (folder / "report.html").write_text(report(study, reference=0.95))
    write_front(study, folder)
    (folder / "large.html").write_text(report(study_of(2000), reference=0.95))
    framed = html.escape((folder / "report.html").read_text(), quote=True)
    (folder / "framed.html").write_text(
        f'<iframe sandbox="allow-scripts" style="width:1300px;height:800px" srcdoc="{framed}"></iframe>'
    )
    return folder


@pytest.mark.parametrize(("name", "width"), [("report.html", 700), ("report.html", 1600), ("pareto.html", 1000)])
def test_a_page_complains_of_nothing_asks_for_nothing_and_fits(browser, folder, name, width):
    opened = Opened(browser, folder / name, width).until("complete")
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:"))] == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    plots = opened.page.query_selector_all(".plot")
    assert plots
    assert all(plot.query_selector(".main-svg") for plot in plots)
    opened.page.close()


@pytest.mark.parametrize("name", ["report.html", "pareto.html"])
def test_the_trade_off_is_there_before_any_script_has_run(browser, folder, name):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / name).as_uri())
    box = page.locator("#trade-off .preview").bounding_box()
    assert box["width"] > 400
    assert box["height"] > 300
    context.close()


def test_two_thousand_trials_open(browser, folder):
    """How soon is measured by benchmarks/tracking.py; here it must not take for ever."""
    opened = Opened(browser, folder / "large.html").until("ready")
    assert int(opened.page.get_attribute("html", "data-ready")) < 1000 * LONGEST
    assert opened.page.query_selector("#trade-off .main-svg")
    assert not opened.page.query_selector(".preview")
    opened.until("complete")
    assert opened.complaints == []
    opened.page.close()


def test_pointing_at_a_trial_shows_its_parameters(browser, folder):
    opened = Opened(browser, folder / "pareto.html").until("complete")
    shown = ""
    for point in opened.page.query_selector_all(".plot .scatterlayer .point")[:40]:
        box = point.bounding_box()
        opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=2)
        opened.page.wait_for_timeout(120)
        texts = [element.text_content() for element in opened.page.query_selector_all(".hoverlayer .hovertext")]
        if shown := " ".join(texts):
            break
    for said in ("trial ", "accuracy", "CPU time", "C = ", "γ = ", "B = ", "M = ", "epochs = "):
        assert said in shown
    opened.page.close()


@pytest.mark.parametrize("name", ["report.html", "framed.html"])
def test_links_lead_to_their_places(browser, folder, name):
    opened = Opened(browser, folder / name)
    opened.page.wait_for_load_state()
    frame = opened.page.frames[-1]
    opened.until("complete", frame)
    links = frame.query_selector_all("nav a")
    assert len(links) == 6
    for link in links:
        frame.evaluate("scrollTo(0, 0)")
        target = frame.query_selector(link.get_attribute("href"))
        before = target.evaluate("one => one.getBoundingClientRect().top")
        link.click()
        frame.wait_for_timeout(50)
        top, bottom = target.evaluate("one => [one.getBoundingClientRect().top, innerHeight]")
        assert -5 <= top <= bottom - 40
        assert top <= before
    assert opened.complaints == []
    assert "framed" in opened.page.url or "report" in opened.page.url
    opened.page.close()


def test_all_is_drawn_before_it_is_printed(browser, folder):
    opened = Opened(browser, folder / "report.html").until("ready")
    drawn = """() => {
        window.dispatchEvent(new Event("beforeprint"));
        return [...document.querySelectorAll(".plot")].map((plot) => plot.querySelector(".main-svg") !== null);
    }"""
    assert opened.page.evaluate(drawn) == [True] * 9
    assert opened.until("complete").complaints == []
    opened.page.close()
