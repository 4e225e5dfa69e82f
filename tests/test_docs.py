"""What the README shows runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a reader stands who has the README's example file; commands run there in the README's order."""
    folder = tmp_path_factory.mktemp("readme")
    generator = np.random.default_rng(0)
    readings = generator.normal(size=(3000, 4))
    columns = {f"sensor {number}": readings[:, number] for number in range(4)}
    fault = np.where(np.hypot(readings[:, 0], readings[:, 1]) > 1.2, "yes", "no")
    parquet.write_table(pa.table(columns | {"fault": fault}), folder / "measurements.parquet")
    return folder


@pytest.mark.compiled_only
@pytest.mark.xdist_group("readme")
@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_readme_runs(command, folder):
    done = subprocess.run(
        [sys.executable, "-m", "workflows.cli", *command.split()[1:]],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
