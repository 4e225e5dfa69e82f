"""What the README shows runs as it stands."""

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import postgres
import pyarrow as pa
import pytest
import typer
from mlflow_servers import running_mlflow
from pyarrow import parquet
from ray_clusters import ENVIRONMENT, cluster_of
from tracked import quiet

from workflows.cli import app
from workflows.commands.submit import _as_tune_reads

CLUSTER, DATABASE = "10.0.0.1:6379", "postgresql+psycopg://me@db/studies"
MLFLOW = "http://mlflow:5000"
"""A reader's own cluster, database and MLflow in the README's examples: the tests put real ones in their place."""
README = Path(__file__).resolve().parents[1] / "README.md"
CLUSTERS = README.parent / "docs" / "cluster.md"


def blocks(language, page=README):
    fenced = re.findall(r"^```([\w ]*)\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)
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


def sessions():
    """The commands of every block, which belong together."""
    lines = [[line.split("#")[0].strip() for line in block.splitlines()] for block in blocks("")]
    commands = [[line for line in block if line.startswith("mmbsgd ")] for block in lines]
    return [block for block in commands if block]


def test_the_readme_shows_commands():
    assert sum(map(len, sessions())) >= 3


def test_every_command_of_the_page_about_clusters_is_one():
    """They need clusters of all kinds: tests of jobs, hosts and images run the like of them."""
    text = "\n".join(blocks("", CLUSTERS)).replace("\\\n", " ")
    lines = [shlex.split(command) for command in re.findall(r"\bmmbsgd [a-z].*", text)]
    assert len(lines) > 8
    for words in lines:
        command = typer.main.get_command(app).commands[words[1]]
        with command.make_context(words[1], words[2:]) as context:
            if words[1] == "submit":
                _as_tune_reads(context.params["data"], context.args)


def test_every_command_about_the_paper_is_one():
    """They take minutes to hours; tests of the command run the like of them."""
    lines = [shlex.split(line.split("#")[0]) for line in "".join(blocks("paper")).splitlines()]
    assert len(lines) >= 3
    for words in lines:
        command = typer.main.get_command(app).commands[words[1]]
        with command.make_context(words[1], words[2:]):
            pass


@pytest.fixture
def folder(tmp_path):
    """Where a reader stands who has the README's example file."""
    generator = np.random.default_rng(0)
    readings = generator.normal(size=(3000, 4))
    columns = {f"sensor {number}": readings[:, number] for number in range(4)}
    fault = np.where(np.hypot(readings[:, 0], readings[:, 1]) > 1.2, "yes", "no")
    parquet.write_table(pa.table(columns | {"fault": fault}), tmp_path / "measurements.parquet")
    return tmp_path


@pytest.fixture
def places(commands, folder):
    """Real ones for the README's cluster and database, where the commands name them."""
    with ExitStack() as stack:
        found = {}
        if any(CLUSTER in command for command in commands):
            found[CLUSTER] = stack.enter_context(cluster_of(2)).address
        if any(DATABASE in command for command in commands):
            found[DATABASE] = stack.enter_context(postgres.running_server()).new_url()
        if any(MLFLOW in command for command in commands):
            found[MLFLOW] = stack.enter_context(running_mlflow(folder)).url
        yield found


@pytest.mark.long
@quiet
@pytest.mark.compiled_only
@pytest.mark.parametrize("commands", sessions(), ids=lambda commands: commands[0])
def test_every_command_of_the_readme_runs(commands, folder, places):
    environment = os.environ | (ENVIRONMENT if CLUSTER in places else {})
    for command in commands:
        for example, real in places.items():
            command = command.replace(example, real)
        code, output, errors = run_as_a_reader(shlex.split(command)[1:], folder, environment)
        assert code == 0, f"{command}\n{output}\n{errors}"


def run_as_a_reader(words, folder, environment):
    """A dashboard is looked at, and then ended with Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-m", "workflows.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment | {"BROWSER": "true", "PYTHONUNBUFFERED": "1"},
    )
    with process:
        if words[0] == "ui":
            for line in process.stdout:
                if "Ctrl-C" in line:
                    process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=240)
        return process.returncode, output, errors
