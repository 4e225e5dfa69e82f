"""The mmbsgd command: it trains, explains itself, and answers mistakes with a message and exit code 2."""

import subprocess
import sys

import pytest

import mmbsgd
from workflows.cli import main


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "workflows.cli", *arguments], capture_output=True, text=True, timeout=240, check=False
    )


def test_training_on_the_demo_prints_a_report():
    done = command("train", "demo", "--rows", "2000", "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    assert "support vectors" in done.stdout


def test_help_names_the_commands():
    done = command("--help")
    assert done.returncode == 0
    assert "train" in done.stdout


def test_version_is_that_of_the_package():
    done = command("--version")
    assert done.returncode == 0
    assert mmbsgd.__version__ in done.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["train", "nonsense"], "nonsense"),
        (["train", "demo", "--rows", "100", "--mergees", "1"], "mergees"),
        (["train", "demo", "--rows", "100", "--gamma", "-1"], "gamma"),
        (["train", "demo", "--rows", "many"], "rows"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(arguments, named):
    done = command(*arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def run_here(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["mmbsgd", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_the_entry_point_trains_and_ends_well(monkeypatch, capsys):
    assert run_here(monkeypatch, "train", "demo", "--rows", "300", "--epochs", "1") == 0
    assert "accuracy" in capsys.readouterr().out


def test_the_entry_point_ends_with_2_on_a_mistake(monkeypatch, capsys):
    assert run_here(monkeypatch, "train", "nonsense") == 2
    assert "nonsense" in capsys.readouterr().err
