"""The report of a study: every number is the study's, every study can be drawn, and a user's words stay words."""

import csv
import json
import math
import re
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser

import pyarrow.parquet as pq
import pytest
from running import SETTINGS as TOY
from running import toy
from snapshots import CASES, SETTINGS, snapshot_of, study_of
from test_architecture import CHECKOUT, imports_of
from typer.testing import CliRunner

from workflows.cli import app
from workflows.report import report, write_front, write_picture, write_report
from workflows.report.page import pictures
from workflows.report.printed import _figure
from workflows.report.summary import summary
from workflows.selection import fastest, knee, most_accurate
from workflows.wording import export_command, objective

NAMES = ["trade-off", "what-matters", "budgets", "history"]
NASTY = "<script>alert(1)</script>&<!--\"' $x$"


class Page(HTMLParser):
    """What a browser would find in it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses, self.scripts, self.texts, self.ids = [], [], [], [], set()
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append(tag)
        self._in = tag
        self.addresses += [found[name] for name in ("src", "href", "srcset", "data", "action") if name in found]
        self.ids.add(found.get("id"))
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._in = ""

    def handle_data(self, data):
        if self._in == "script":
            self.scripts[-1] += data
        elif self._in != "style":
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    @property
    def figures(self):
        return json.loads(self.scripts[2])


@pytest.fixture(scope="module")
def usual():
    return study_of(150)


@pytest.fixture(scope="module")
def page(usual):
    return Page(report(usual, reference=0.9501))


PRINTED = {"nothing", "one", "usual", "grid", "third size", "odd parameters", "interrupted"}
"""Written for paper as well, which takes most of the time."""


@pytest.mark.parametrize("case", CASES)
def test_every_study_has_a_report(case, tmp_path):
    study, printed = CASES[case](), case in PRINTED
    files = write_report(study, tmp_path, reference=0.95, printed=printed)
    expected = {"report.html", "pareto.html", "front.csv", "front.parquet", "trials.csv", "trials.parquet"}
    if printed:
        expected |= {f"pictures/{name}.svg" for name in NAMES}
    assert {str(file.relative_to(tmp_path)) for file in files} == expected
    assert {file for file in tmp_path.rglob("*") if file.is_file()} == set(files)
    page = Page((tmp_path / "report.html").read_text())
    panels = [panel for picture in pictures(study) for panel in picture.panels]
    assert len(page.figures) == sum(not panel.note for panel in panels)
    for panel in panels:
        assert panel.marks or panel.note, "an empty panel says why"
    assert "nan" not in re.findall(r"\w+", page.text.lower())


@pytest.mark.parametrize("case", sorted(set(CASES) - PRINTED))
def test_every_picture_can_be_drawn_for_paper(case):
    for picture in pictures(CASES[case](), reference=0.95):
        assert len(_figure(picture, titled=True).axes) >= len(picture.panels)


def test_all_pictures_can_be_written_as_pixels(usual, tmp_path):
    for picture in pictures(usual):
        path = write_picture(picture, tmp_path / f"{picture.name}.png", kind="png")
        assert path.read_bytes().startswith(b"\x89PNG")


def test_the_same_study_gives_the_same_files(tmp_path):
    for name in ("one", "two"):
        write_report(study_of(25), tmp_path / name, reference=0.95)
    for file in (tmp_path / "one").rglob("*"):
        if file.is_file():
            assert file.read_bytes() == (tmp_path / "two" / file.relative_to(tmp_path / "one")).read_bytes(), file.name


def test_a_page_needs_nothing_but_itself(page):
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    assert {address[1:] for address in page.addresses if address.startswith("#")} <= page.ids
    assert set(NAMES) | {"front", "failures"} <= page.ids
    assert sum("plotly.js v" in script[:500] for script in page.scripts) == 1
    assert sum(len(script) > 1e6 for script in page.scripts) == 1


def test_the_page_shows_the_front_as_it_is(usual, page):
    names = usual.settings.names
    for member in usual.front:
        for name, value, deviation in zip(names, member.values, member.deviations, strict=True):
            assert objective(name, value, deviation) in page.text
    for chosen in (knee(usual.front), fastest(usual.front), most_accurate(usual.front)):
        assert export_command(usual.study, chosen.number) in page.text


def test_the_summary_counts_and_compares(usual, page):
    text = summary(usual, 0.9501)
    assert text in page.text
    for state, said in (("complete", "complete"), ("stopped", "stopped early"), ("failed", "failed")):
        assert f"{sum(trial.state == state for trial in usual.trials)} {said}" in text
    assert "150 trials" in text
    assert "made-up" in text
    assert "on 4 workers of 2 machines" in text
    difference = 100 * (most_accurate(usual.front).values[0] - 0.9501)
    assert f"95.01% on the same rows, {abs(difference):.2f} points {'less' if difference > 0 else 'more'}" in text
    assert "exact SVM" not in summary(usual, None)


def test_cards_compare_the_models(usual, page):
    best, cheapest = most_accurate(usual.front), fastest(usual.front)
    times = best.values[1] / cheapest.values[1]
    said = f"{times:.1f}" if times < 10 else f"{times:,.0f}"
    assert f"the fastest for {said} times its CPU time." in page.text


def test_trials_are_drawn_where_they_are(usual, page):
    drawn = {(x, y) for trace in page.figures[0]["data"] for x, y in zip(trace["x"], trace["y"], strict=True)}
    for trial in usual.complete:
        score, cost = trial.values
        assert (float(f"{cost:.7g}"), float(f"{score:.7g}")) in drawn
    texts = [text for trace in page.figures[0]["data"] for text in trace.get("hovertext", [])]
    trial = usual.complete[0]
    (mine,) = (text for text in texts if text.startswith(f"trial {trial.number}<br>"))
    for name, shown in (("B", trial.parameters["budget"]), ("M", trial.parameters["mergees"])):
        assert f"{name} = {shown}" in mine
    assert objective("accuracy", trial.values[0]) in mine


def test_figures_are_what_plotly_takes(page):
    from plotly.graph_objects import Figure

    assert len(page.figures) == 9
    for figure in page.figures:
        Figure(figure)  # raises if a name or a value is unknown


def test_words_of_users_are_words(tmp_path):
    settings = replace(SETTINGS, data=NASTY, space=NASTY)
    made = study_of(40, settings, study=NASTY * 20)
    broken = replace(made.trials[0], state="failed", values=())
    broken = replace(broken, result=replace(broken.result, state="failed", reason=NASTY, node=NASTY))
    odd = [
        replace(trial, parameters=trial.parameters | {NASTY: NASTY + str(trial.number % 3)})
        for trial in made.trials[1:]
    ]
    study = snapshot_of([broken, *odd], settings, study=NASTY * 20)
    write_report(study, tmp_path)
    for name in ("report.html", "pareto.html"):
        page = Page((tmp_path / name).read_text())
        assert page.tags.count("script") == 4
        texts = json.dumps(page.figures, ensure_ascii=False)
        assert "<script>" not in texts
        assert "&lt;script&gt;alert(1)" in texts
    assert NASTY in unescape(Page((tmp_path / "report.html").read_text()).text)


def test_failures_are_listed_with_their_reasons():
    study = study_of(40, failed=0.5)
    text = Page(report(study)).text
    failed = [str(trial.number) for trial in study.trials if trial.state == "failed"]
    assert f"{len(failed)} out of memory {', '.join(failed[:12])}" in text
    assert "No trial failed." in Page(report(study_of(30, failed=0))).text


@pytest.mark.parametrize("case", ["usual", "third size", "odd parameters", "interrupted", "nothing", "confirmed once"])
def test_tables_say_what_the_study_says(case, tmp_path):
    study = CASES[case]()
    write_report(study, tmp_path, printed=False)
    rows = pq.read_table(tmp_path / "trials.parquet").to_pylist()
    front = {member.number for member in study.front}
    assert len(rows) == len(study.trials)
    for row, trial in zip(rows, study.trials, strict=True):
        assert (row["number"], row["origin"], row["attempt"], row["state"]) == (
            trial.number,
            trial.origin,
            trial.attempt,
            trial.state,
        )
        assert (row["node"], row["reason"], row["spread"]) == (
            trial.result.node,
            trial.result.reason,
            trial.result.spread,
        )
        assert row["pareto"] == (trial.number in front)
        for name, value in zip(study.settings.names, trial.values, strict=False):
            assert row[f"objective.{name}"] == value
        for name, value in (trial.result.costs | {}).items():
            assert row[f"cost.{name}"] == value
        for name, value in trial.result.counters.items():
            assert row[f"counter.{name}"] == value
        for name, value in trial.parameters.items():
            assert row[f"parameter.{name}"] == (
                value if not isinstance(row[f"parameter.{name}"], str) else _text(value)
            )
        assert abs(row["ended"] - datetime.fromtimestamp(trial.ended, UTC)).total_seconds() < 1e-5
    members = pq.read_table(tmp_path / "front.parquet").to_pylist()
    for row, member in zip(members, study.front, strict=True):
        assert (row["number"], row["runs"]) == (member.number, member.runs)
        for place, name in enumerate(study.settings.names):
            deviation = member.deviations[place] if member.deviations else math.nan
            assert row[name] == member.values[place]
            assert row[f"{name}.deviation"] == (None if math.isnan(deviation) else deviation)
            assert row[f"{name}.found"] == member.found[place]
    for table in ("trials", "front"):
        _assert_same(tmp_path, table)


def _text(value):
    return value if isinstance(value, str) else json.dumps(value)


def _assert_same(folder, name):
    """CSV and Parquet hold the same."""
    table = pq.read_table(folder / f"{name}.parquet")
    with (folder / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == table.num_rows
    for row, known in zip(rows, table.to_pylist(), strict=True):
        assert list(row) == table.column_names
        for column, value in known.items():
            if value is None:
                assert row[column] == ""
            elif isinstance(value, float):
                assert float(row[column]) == value
            elif isinstance(value, datetime):
                assert datetime.fromisoformat(row[column]) == value
            else:
                assert row[column] == (str(value).lower() if isinstance(value, bool) else str(value))


def test_two_thousand_trials_fit_into_a_page(tmp_path):
    files = write_report(study_of(2000), tmp_path, reference=0.95, printed=False)
    assert {file.name: file.stat().st_size < 10e6 for file in files if file.suffix == ".html"} == {
        "report.html": True,
        "pareto.html": True,
    }


def test_the_front_alone_is_three_files(usual, tmp_path):
    assert sorted(file.name for file in write_front(usual, tmp_path)) == ["front.csv", "front.parquet", "pareto.html"]
    assert len(list(tmp_path.iterdir())) == 3


def test_a_report_knows_neither_pandas_nor_a_cluster():
    files = list((CHECKOUT / "workflows" / "report").glob("*.py"))
    assert len(files) > 10
    for file in files:
        assert not {"pandas", "mlflow", "ray"} & set(imports_of(file)), file
        assert len(file.read_text().splitlines()) <= 250, f"{file.name} has grown: split it"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    toy(folder, trials=12, settings=replace(TOY, data="odd [red]data[/red]"))
    return folder


def test_the_command_writes_page_and_pictures(home, tmp_path):
    options = [part for kind in ("html", "svg", "png") for part in (f"--{kind}", str(tmp_path / f"out.{kind}"))]
    done = CliRunner().invoke(app, ["front", "toy", "--home", str(home), *options], env={"COLUMNS": "300"})
    assert done.exit_code == 0, done.output
    size = (tmp_path / "out.html").stat().st_size
    assert f"The report is in {tmp_path / 'out.html'} ({size / 1e6:.1f} MB)." in done.output
    assert "confirmed Pareto front of 12 trials" in done.output
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "out.svg").read_text()
    assert "12 trials ended" in Page((tmp_path / "out.html").read_text()).text


def test_the_command_prints_nothing_but_json_with_json(home, tmp_path):
    path = tmp_path / "out.html"
    done = CliRunner().invoke(app, ["front", "toy", "--home", str(home), "--json", "--html", str(path)])
    assert json.loads(done.stdout)
    assert path.exists()


def test_the_command_refuses_folders_that_are_not_there(home, tmp_path):
    done = CliRunner().invoke(app, ["front", "toy", "--home", str(home), "--svg", str(tmp_path / "no" / "out.svg")])
    assert done.exit_code != 0
    assert "does not exist" in str(done.exception) + done.output
