"""benchmarks/scaling.py: its simulated time, what it reads off its curves, and the page that it fills."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def scaling(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import scaling_simulated

    return scaling_simulated


def row(workers, efficiency, length=1.0):
    rate = efficiency * workers / length
    return {"backend": "actors", "workers": workers, "length": length, "efficiency": efficiency, "rate": rate}


def test_a_driver_that_keeps_up_keeps_them_all_busy(scaling):
    assert scaling.kept_busy([row(1, 1.0), row(10, 0.99), row(100, 0.95)]) == 100


def test_a_driver_of_200_trials_a_second_keeps_some_200_workers_busy(scaling):
    assert scaling.kept_busy([row(100, 0.99), row(1_000, 0.2)]) == pytest.approx(200 / 0.9)


@pytest.mark.parametrize("backend", ["actors", "ideal"])
def test_simulated_workers_are_busy_and_never_more_than_that(tmp_path, backend):
    size = {"workers": 5, "length": 10.0, "settle": 5, "timed": 20, "call": 0.0005, "nodes": 0.001}
    arguments = json.dumps({"backend": backend, "sampler": "auto", "folder": str(tmp_path)} | size)
    command = [sys.executable, str(BENCHMARKS / "frame.py"), "scaling_simulated", "run_simulated", arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert 0.9 < found["efficiency"] <= 1.0
    assert found["trials"] == 30


def test_a_page_gets_the_tables_between_its_marks(scaling, tmp_path):
    import scaling_picture

    page = tmp_path / "page.md"
    page.write_text("before\n<!-- scaling figures -->\nold\n<!-- end of scaling figures -->\nafter\n")
    rows = [row(1, 1.0), row(10, 0.5)]
    scaling_picture.fill(page, {"simulated": {"rows": rows, "lengths": [1.0], "workers": [1, 10], "figures": []}})
    text = page.read_text()
    assert text.startswith("before\n<!-- scaling figures -->\n")
    assert text.endswith("<!-- end of scaling figures -->\nafter\n")
    assert "| 10 | 5/s · 50.0% |" in text
    assert "old" not in text


def test_a_page_without_marks_is_left_as_it_is(scaling, tmp_path):
    import scaling_picture

    page = tmp_path / "page.md"
    page.write_text("nothing to fill\n")
    with pytest.raises(SystemExit, match="scaling figures"):
        scaling_picture.fill(page, {})
    assert page.read_text() == "nothing to fill\n"
