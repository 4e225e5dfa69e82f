"""A study in MLflow's own pages, in a real browser: its runs, its front, its charts and its report."""

import os
import re
from pathlib import Path

import pytest
from conftest import CHECKOUT
from running import PATIENCE
from tracked import looked_up, quiet, with_database

from workflows.commands.sync import bring
from workflows.export.exporting import Request, export
from workflows.export.publishing import log
from workflows.study.job import Job, ready
from workflows.tracking.address import address
from workflows.tracking.server import Server, free_port
from workflows.tracking.views import charts_page, front_page, report_page, study_page, trials_page

pytestmark = [quiet, pytest.mark.compiled_only]
CHROMIUM = Path("/usr/bin/chromium")
SWITCHES = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync")
TRIALS = 14
NOT_OURS = ("/static-files/", "/ajax-api/2.0/mlflow/users/current")
"""MLflow's own scripts, and what they ask for although a server without accounts has no such thing."""
NAMES = ".ag-row a[href*='/runs/']"


class Dashboard:
    def __init__(self, server, home, seen, experiment, run):
        self.url, self.home, self.seen, self.experiment, self.run = server.url, home, seen, experiment, run
        self.front = {f"trial {member.number}" for member in seen.front}
        self.trials = {f"trial {trial.number}" for trial in seen.trials}


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory):
    """A real study, small, and MLflow's server on its home."""
    home = with_database(tmp_path_factory.mktemp("home"))
    job = Job(
        "demo", rows=600, workers=0, trials=TRIALS, confirm=2, cost="work", sampler="random", tracking=False, home=home
    )
    ready(job).run()
    seen, where = looked_up(home, "demo"), address(None, home)
    with Server(where, free_port(0, 0), home / "server.log") as server:
        found = bring(seen, where, home, None)
        server.wait()
        yield Dashboard(server, home, seen, *found)


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM.exists():
        pytest.skip("no chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture
def page(browser, request):
    """A page that ends with a picture of itself, and our files in it must not have had an error."""
    context = browser.new_context(viewport={"width": 1600, "height": 1200})
    context.set_default_timeout(1000 * PATIENCE)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(f"{error} {error.stack}"))
    page.on("console", lambda said: errors.append(_said(said)) if said.type == "error" else None)
    yield page
    folder = Path(os.environ.get("MMBSGD_SCREENSHOTS") or CHECKOUT / "build" / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{request.node.name.removeprefix('test_')}.png")
    context.close()
    assert [error for error in errors if not any(one in error for one in NOT_OURS)] == []


def _said(message):
    return f"{message.text} at {message.location.get('url')}"


def names(page):
    """The runs that the table shows."""
    return {text.strip() for text in page.locator(NAMES).all_inner_texts()} - {""}


def shown(page, expected):
    """Waits until the table shows exactly these runs."""
    page.wait_for_function(
        """([runs, expected]) => {
            const found = [...document.querySelectorAll(runs)].map((link) => link.innerText.trim()).filter(Boolean);
            return [...new Set(found)].sort().join("\\n") === expected;
        }""",
        arg=[NAMES, "\n".join(sorted(expected))],
    )
    assert names(page) == set(expected)


def charts(page):
    """The part of the charts that is ours."""
    return page.get_by_test_id("experiment-view-compare-runs-section-header").filter(has_text="Trade-off")


def inside(page):
    """The file that the viewer shows, in a frame, once its plots are drawn."""
    page.wait_for_selector("iframe")
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for(state="attached")
    return frame


def test_the_link_to_all_trials_lists_them_with_their_objectives_and_parameters(dashboard, page):
    page.goto(trials_page(dashboard.url, dashboard.experiment))
    page.get_by_text("You're viewing a shared view").wait_for()
    shown(page, dashboard.trials | {"demo"})
    for column in ("accuracy", "kernel_evaluations", "C", "gamma", "budget"):
        page.get_by_test_id(f"sort-header-{column}").wait_for()
    accuracies = [float(text) for text in page.locator("[col-id*='accuracy'].ag-cell").all_inner_texts() if text != "-"]
    assert accuracies == sorted(accuracies, reverse=True)
    best = max(trial.values[0] for trial in dashboard.seen.complete)
    assert accuracies[0] == pytest.approx(best, abs=1e-5)


def test_the_plain_table_unfolds_the_study_into_its_trials(dashboard, page):
    page.goto(f"{dashboard.url}/#/experiments/{dashboard.experiment}/runs?workflowType=machine_learning")
    shown(page, {"demo"})
    page.locator(".ag-row", has_text="demo").locator("[col-id*='Run Name'] button").click()
    shown(page, dashboard.trials | {"demo"})


def test_the_link_to_the_front_shows_exactly_its_members(dashboard, page):
    assert 1 < len(dashboard.front) < TRIALS
    page.goto(front_page(dashboard.url, dashboard.experiment, "accuracy"))
    shown(page, dashboard.front)
    assert page.get_by_test_id("search-box").input_value() == "tags.pareto = 'true'"


def test_the_charts_are_parallel_coordinates_and_the_trade_off(dashboard, page):
    page.goto(charts_page(dashboard.url, dashboard.experiment))
    charts(page).wait_for()
    parallel, scatter = (
        page.get_by_test_id("experiment-view-compare-runs-card").filter(has_text=title)
        for title in ("Parallel Coordinates", "kernel_evaluations vs. accuracy")
    )
    for axis in ("gamma", "budget", "mergees", "accuracy"):
        parallel.get_by_text(axis, exact=True).first.wait_for()
    parallel.locator("canvas, svg path").first.wait_for(state="attached")
    scatter.scroll_into_view_if_needed()
    scatter.locator(".js-plotly-plot .points path").first.wait_for(state="attached")


def test_the_study_s_page_tells_of_its_front_with_links_that_work(dashboard, page):
    page.goto(study_page(dashboard.url, dashboard.experiment, dashboard.run))
    note = page.get_by_test_id("note-editor-preview-content")
    note.get_by_text(f"{TRIALS} trials complete").wait_for()
    expand = page.get_by_label("Expand description")
    if expand.count():
        expand.click()
    rows = note.locator("table tbody tr")
    rows.first.wait_for()
    assert rows.count() == len(dashboard.front)
    numbers = [row.locator("td").nth(1).inner_text().strip() for row in rows.all()]
    assert numbers == [str(member.number) for member in dashboard.seen.front]
    assert "knee" in note.inner_text()
    addresses = {link.inner_text(): link.get_attribute("href") for link in note.locator("a").all()}
    assert {
        text: page.evaluate("(link) => new URL(link, location).href", link) for text, link in addresses.items()
    } == {
        "The report": report_page(dashboard.url, dashboard.experiment, dashboard.run),
        "all of them": trials_page(dashboard.url, dashboard.experiment),
        "the front": front_page(dashboard.url, dashboard.experiment, "accuracy"),
        "as parallel coordinates": charts_page(dashboard.url, dashboard.experiment),
    }
    link = note.get_by_text("The report", exact=True)
    if link.get_attribute("target") == "_blank":
        with page.context.expect_page() as opened:
            link.click()
        page = opened.value
    else:
        link.click()
    inside(page).get_by_role("heading", name="The front").wait_for()


def test_the_front_s_picture_says_what_a_model_is_made_of(dashboard, page):
    page.goto(report_page(dashboard.url, dashboard.experiment, dashboard.run).replace("report.html", "pareto.html"))
    frame = inside(page)
    plot = frame.locator(".js-plotly-plot").first
    plot.scroll_into_view_if_needed()
    places = plot.evaluate(
        """(plot) => plot._fullData.filter((trace) => trace.mode.includes("markers")).flatMap((trace) => {
            const { xaxis, yaxis } = plot._fullLayout;
            return [...trace.x.keys()].map((each) => (
                [xaxis._offset + xaxis.d2p(trace.x[each]), yaxis._offset + yaxis.d2p(trace.y[each])]
            ));
        }).filter((place) => place.every(Number.isFinite))"""
    )
    assert places
    box = plot.bounding_box()
    view = page.locator("iframe").bounding_box()
    for x, y in places:  # those that are in view
        where = box["x"] + x, box["y"] + y
        if view["y"] < where[1] < view["y"] + view["height"]:
            page.mouse.move(where[0] + 40, where[1] + 40)
            page.mouse.move(*where, steps=4)
            break
    said = plot.locator(".hoverlayer .hovertext")
    said.first.wait_for()
    text = said.first.text_content()
    number = int(re.search(r"trial (\d+)", text).group(1))
    parameters = dashboard.seen.trial(number).parameters
    assert f"{parameters['budget']}" in text
    assert f"{parameters['mergees']}" in text
    assert "accuracy" in text


def test_the_report_s_links_lead_to_its_places_inside_the_viewer(dashboard, page):
    page.goto(report_page(dashboard.url, dashboard.experiment, dashboard.run))
    frame = inside(page)
    links = frame.locator("nav a")
    assert links.count() >= 5
    for link in links.all():
        place = link.get_attribute("href").removeprefix("#")
        link.click()
        section = frame.locator(f"section#{place}")
        section.evaluate("""(section) => new Promise((resolve) => {
            const look = () => {
                const { top, bottom } = section.getBoundingClientRect();
                const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
                if ((Math.abs(top) < 120 || atEnd) && bottom > 0) resolve();
                else requestAnimationFrame(look);
            };
            look();
        })""")
    assert page.url.startswith(report_page(dashboard.url, dashboard.experiment, dashboard.run).partition("?")[0])


def test_a_registered_model_s_page_shows_its_card(dashboard, page, tmp_path):
    request = Request(tmp_path / "model", ("mlflow",), seeds=1)
    exported = export(dashboard.seen, dashboard.home, None, request, lambda stage, done, total: None)
    version = log(exported, address(None, dashboard.home), dashboard.experiment, dashboard.run, "board", "champion")
    page.goto(f"{dashboard.url}/#/models/board/versions/{version}?workflowType=machine_learning")
    page.get_by_role("heading", name=f"demo: trial {exported.choice.member.number}").wait_for()
    page.get_by_text("How good it is").wait_for()
    page.get_by_text("champion").first.wait_for()
