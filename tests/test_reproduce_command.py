"""`mmbsgd reproduce` as a user runs it: what is wrong is said before anything runs, and one command does all of it."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from reproduced import measured, phishing_like
from running import PATIENCE, assert_whole
from test_reproduction import FACTS
from tracked import quiet

from workflows.cli import main
from workflows.commands.reproduce import NAMES
from workflows.reproduction.experiments import EXPERIMENTS
from workflows.reproduction.page import write_page
from workflows.reproduction.results import Results, read, write
from workflows.study.tuning import looked_at

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAPER = ("table 1", "table 2", "figure 1", "figures 2 and 3", "figure 4", "figure 5")


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Runs the command in this process: (exit code, what it said)."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["mmbsgd", "reproduce", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return ended.value.code or 0, said.out + said.err

    return run


def test_the_command_names_every_experiment():
    """It does not import them for its help, which would take a second."""
    assert tuple(EXPERIMENTS) == NAMES


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["everything"], "no experiment 'everything'; there are datasets, merge-strategies"),
        (["pareto", "--set", "mnist"], "no data set 'mnist'; the paper has phishing, web, adult"),
        (["pareto", "--quick", "--data", "nowhere"], "--data is nowhere, which is not a folder"),
        (["page"], "there are no results in reproduced: run"),
        (["pareto", "--quick", "--tracking-uri", "gopher://x"], "--tracking-uri gopher:… is not supported"),
    ],
)
def test_a_mistake_is_a_message_before_anything_runs(command, tmp_path, words, message):
    code, said = command(*words)
    assert code == 2
    assert message in " ".join(said.split())
    assert not list(tmp_path.rglob("*.journal"))


def test_full_results_are_safe_from_a_quick_look(command, tmp_path):
    write(tmp_path / "mine" / "reproduction", "pareto", Results([measured()], FACTS | {"size": "full"}))
    code, said = command("pareto", "--quick", "--out", "mine", "--data", tmp_path)
    assert code == 2
    assert "choose another --out" in " ".join(said.split())


@pytest.mark.compiled_only
def test_an_experiment_in_this_process_and_its_page_again(command, tmp_path):
    phishing_like(tmp_path)
    words = ["merge-share", "--quick", "--data", tmp_path, "--set", "phishing", "--workers", 0, "--no-tracking"]
    code, said = command(*words)
    assert code == 0, said
    assert "merge-share: How much time does merging take? (PHISHING)" in " ".join(said.split())
    assert re.search(r"reproduce-merge-share-phishing-quick: 32 trials in .* left", said)
    page = tmp_path / "reproduced-quick" / "reproduction.md"
    before = page.read_text()
    page.unlink()
    picture = tmp_path / "reproduced-quick" / "reproduction" / "merge-share.svg"
    drawn = picture.read_bytes()
    assert command("page", "--quick")[0] == 0
    assert (page.read_text(), picture.read_bytes()) == (before, drawn), "the page is made of the results alone"
    code, said = command(*words)
    assert code == 0
    assert "trials in" not in said, "nothing is run again"


def start(words, folder):
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "workflows.cli", "reproduce", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    )


@pytest.mark.long
@quiet
@pytest.mark.compiled_only
def test_all_of_it_on_one_set_though_it_is_killed_on_the_way(real_data, tmp_path):
    """Real PHISHING, real Ray, MLflow: killed with kill -9 in a study, asked to end in another, then to the end."""
    words = ["all", "--quick", "--data", real_data, "--set", "phishing"]
    for ending, study in ((signal.SIGKILL, "parameter-study"), (signal.SIGINT, "peers-svc")):
        with start(words, tmp_path) as process:
            for line in process.stdout:
                if f"{EXPERIMENTS['parameter-study'].title}" in line and study == "parameter-study":
                    break
                if "reproduce-peers-mmbsgd" in line:
                    break
            for line in process.stdout:
                if re.search(r"running on [12] workers|trials in", line):
                    break
            process.send_signal(ending)
            rest = process.stdout.read()
        assert process.wait(PATIENCE) == (-9 if ending == signal.SIGKILL else 130), rest
        assert ending == signal.SIGKILL or "Run the same command again: it goes on where it stopped." in rest
    with start(words, tmp_path) as process:
        said = process.stdout.read()
    assert process.returncode == 0, said
    assert "reproduce-merge-share" not in said, "what was done is not done again"
    out, home = tmp_path / "reproduced-quick", tmp_path / "mmbsgd-home"
    text = (out / "reproduction.md").read_text()
    for experiment in EXPERIMENTS.values():
        assert f"## {experiment.title}" in text
        assert read(out / "reproduction", experiment.name).facts["size"] == "quick"
    assert text.count("**holds") + text.count("**does not hold**") == 10, "five claims, two engines"
    assert not re.search(r"\bnan\b", text)
    journals = sorted((home / "studies").glob("reproduce-*.journal"))
    assert len(journals) == 22
    for journal in journals:
        with looked_at(journal.stem, home, None) as ledger:
            count = len({trial.user_attrs["origin"] for trial in ledger.trials()})
        assert_whole(journal, journal.stem, count)
    assert_tracked(home, {journal.stem for journal in journals})


def assert_tracked(home, studies):
    """MLflow has every study, ended, with its report."""
    import mlflow

    client = mlflow.MlflowClient(f"sqlite:///{home / 'mlflow.db'}")
    found = {one.name: one.experiment_id for one in client.search_experiments()}
    for study in studies:
        (experiment,) = [number for name, number in found.items() if study in name.split("/")]
        parents = client.search_runs([experiment], "tags.`mmbsgd.trial` IS NULL")
        assert len(parents) == 1, study
        assert parents[0].info.status == "FINISHED"
        assert "report.html" in {one.path for one in client.list_artifacts(parents[0].info.run_id)}


@pytest.fixture(scope="module")
def documented(tmp_path_factory):
    """A copy of the results in the repository, with a page made of them."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(DOCS / "reproduction", folder / "reproduction")
    write_page(folder)
    return folder


def test_the_page_in_the_repository_is_of_a_full_run_and_says_what_its_results_say(documented):
    text = (DOCS / "reproduction.md").read_text()
    assert (documented / "reproduction.md").read_text() == text
    for name in EXPERIMENTS:
        assert read(DOCS / "reproduction", name).facts["size"] == "full"
    assert all(place in text for place in PAPER), "each table and figure of the paper"


def test_the_pictures_in_the_repository_are_those_of_the_page(documented):
    named = set(re.findall(r"\(reproduction/([\w.-]+\.svg)\)", (DOCS / "reproduction.md").read_text()))
    assert named == {path.name for path in (DOCS / "reproduction").glob("*.svg")}
    for name in named:
        kept, drawn = ((folder / "reproduction" / name).read_bytes() for folder in (DOCS, documented))
        assert kept == drawn, f"{name} is of other results: 'mmbsgd reproduce page --out docs' draws it again"
