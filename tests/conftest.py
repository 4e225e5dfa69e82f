"""Options, markers and data that the whole suite shares."""

import os
import signal
import subprocess
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

CHECKOUT = Path(__file__).resolve().parents[1]
UNCOMPILED = bool(numba.config.DISABLE_JIT)

settings.register_profile(
    "mmbsgd",
    deadline=None,
    derandomize=True,
    max_examples=15 if UNCOMPILED else 50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("mmbsgd")


def pytest_addoption(parser):
    parser.addoption("--fail-on-skip", action="store_true", help="a skipped test makes the session fail")


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "compiled_only: left out with NUMBA_DISABLE_JIT=1: too slow, or of servers and browsers that cover nothing",
    )
    config.addinivalue_line(
        "markers",
        "long: a story in many processes, up to a minute; part of 'make test-all', which CI runs, not of 'make test'",
    )
    # A shell without job control lets what it starts in the background ignore Ctrl-C, and so would all commands here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Without it scikit-learn skips its check of array API input.
    os.environ.setdefault("SCIPY_ARRAY_API", "1")
    if UNCOMPILED:
        # Compiled kernels divide by zero and overflow silently, as they mean to: their Python twins shall too.
        np.seterr(all="ignore")


def _skipped(config):
    if not config.getoption("--fail-on-skip") or hasattr(config, "workerinput"):
        return []
    return config.pluginmanager.get_plugin("terminalreporter").stats.get("skipped", [])


def pytest_sessionfinish(session):
    if _skipped(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    skipped = _skipped(config)
    if skipped:
        terminalreporter.section("skipped tests, and --fail-on-skip was given", red=True)
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        terminalreporter.line(f"{report.nodeid}: {reason}")


@pytest.fixture(scope="session")
def real_data():
    """The folder of the real data sets."""
    named = os.environ.get("MMBSGD_DATA")
    folder = Path(named) if named else CHECKOUT.parent / "shared" / "data"
    if not (folder / "a9a.bz2").exists():
        pytest.skip(f"no a9a.bz2 in {folder}: set MMBSGD_DATA to a folder that has the LIBSVM data sets")
    return folder


@pytest.fixture
def board(tmp_path):
    """A folder with demo data, prepared once for all runs of a test."""
    from prepared import prepared

    prepared(tmp_path / "board", rows=2000)
    return tmp_path


@pytest.fixture
def disk(tmp_path):
    """A very small one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"needs root, to mount a small disk: {mounted.stderr}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
