"""`mmbsgd spaces`: lists and shows spaces, prints TOML that can be edited, and answers mistakes with exit code 2."""

import subprocess
import sys
from importlib.resources import files

import pytest

from search_spaces import load, shipped
from workflows.cli import main
from workflows.commands.console import console


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs the command here, in an empty folder and a wide terminal: (exit code, output, errors)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(console, "_width", 300)

    def command_here(*arguments):
        monkeypatch.setattr(sys, "argv", ["mmbsgd", "spaces", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return command_here


def cells(output):
    """The rows of a printed table."""
    lines = [line for line in output.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_the_list_tells_what_every_shipped_space_searches(run):
    code, output, _ = run()
    assert code == 0
    shown = {row[0]: row[1:] for row in cells(output)}
    assert sorted(shown) == shipped()
    for name, (about, _) in shown.items():
        assert about == load(name).about
    searched = (
        "C 0.5 to 128; gamma 0.001 to 0.06; budget 20 to 1000; mergees 2 to 11; epochs 1 to 5; polish 0, 3, 7, 20"
    )
    assert shown["adult"][1] == searched
    assert "gamma 0.05 to 50 of scale" in shown["default"][1]
    grid = "budget 0.01, 0.05, 0.1, 0.15, 0.25, 0.5 of support-vectors; mergees 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"
    assert shown["paper-grid"][1] == grid


def test_a_shipped_space_is_shown_with_how_to_make_it_ones_own(run):
    code, output, _ = run("default")
    assert code == 0
    assert cells(output) == [
        ["C", "0.01 to 100", "log", ""],
        ["gamma", "0.05 to 50", "log", "scale"],
        ["budget", "10 to 500", "log", ""],
        ["mergees", "2 to 11", "linear", ""],
        ["epochs", "1 to 5", "linear", ""],
        ["polish", "0, 3, 7, 20", "", ""],
    ]
    assert "mmbsgd spaces default --toml > mine.toml" in output


def test_a_file_is_shown_as_it_is_meant(run, tmp_path):
    (tmp_path / "[bold].toml").write_text(
        'about = "[red]mine"\nC = 1\ngamma = 0.5\nbudget = { value = 0.25, of = "rows" }\nmergees = 3\n'
        'engine = { choices = ["fast", "paper"] }\nmaintenance = "removal"'
    )
    code, output, _ = run("[bold].toml")
    assert code == 0
    assert cells(output) == [
        ["C", "1", "", ""],
        ["gamma", "0.5", "", ""],
        ["budget", "0.25", "", "rows"],
        ["mergees", "3", "", ""],
        ["maintenance", "removal", "", ""],
        ["engine", "fast, paper", "", ""],
    ]
    assert "Search space [bold].toml" in output
    assert "[red]mine" in output
    assert "--toml" not in output


@pytest.mark.parametrize("name", shipped())
def test_toml_is_printed_as_it_stands_and_is_the_same_space(run, tmp_path, name):
    code, output, _ = run(name, "--toml")
    assert code == 0
    assert output == files("search_spaces").joinpath(f"{name}.toml").read_text()
    (tmp_path / "mine.toml").write_text(output)
    assert load("mine.toml").parameters == load(name).parameters


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "no search space 'nonsense'; there are adult, default, ijcnn"),
        (["gone.toml"], "cannot read search space gone.toml: No such file"),
        (["wrong.toml"], "search space wrong.toml, budget: [oops] is not a number"),
        (["wrong.toml", "--toml"], "search space wrong.toml, budget: "),
        (["--toml"], "--toml needs the name of a space"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(run, tmp_path, arguments, message):
    (tmp_path / "wrong.toml").write_text('budget = "[oops]"')
    code, output, errors = run(*arguments)
    assert code == 2
    assert output == ""
    assert message.replace("[oops]", '"[oops]"') in errors
    assert "Traceback" not in errors


def test_other_commands_do_not_wait_for_optuna():
    code = "import sys, workflows.cli; print('optuna' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"
