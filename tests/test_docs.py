"""What the README shows runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks(language):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


def python_blocks():
    return blocks("python")


def test_the_readme_shows_python():
    assert python_blocks(), "README.md has no python block"


@pytest.mark.compiled_only
def test_every_python_block_of_the_readme_runs(tmp_path):
    for block in python_blocks():
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"


def commands():
    lines = [line.split("#")[0].strip() for block in blocks("") for line in block.splitlines()]
    return [line for line in lines if line.startswith("mmbsgd ")]


def test_the_readme_shows_commands():
    assert len(commands()) >= 3


@pytest.mark.compiled_only
@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_readme_runs(command, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "workflows.cli", *command.split()[1:]],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
