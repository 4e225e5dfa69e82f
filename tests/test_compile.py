"""Machine code is kept on disk, and a damaged or missing cache costs time, never a result."""

import os
import subprocess
import sys

import pytest

MODULE = """
from mmbsgd._compile import kernel, summing_kernel


@kernel
def double(x):
    return 2.0 * x


@summing_kernel
def total(values):
    result = 0.0
    for value in values:
        result += value
    return result


if __name__ == "__main__":
    import numpy as np

    import small

    print(small.double(4.0), small.total(np.arange(5.0)), sum(small.double.stats.cache_hits.values()))
"""


def run_once(folder):
    done = subprocess.run(
        [sys.executable, "small.py"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")},
        timeout=120,
        check=True,
    )
    double, total, hits = done.stdout.split()
    assert (float(double), float(total)) == (8.0, 10.0)
    return int(hits)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "small.py").write_text(MODULE)
    return tmp_path


@pytest.mark.compiled_only
def test_a_second_process_finds_the_machine_code_of_the_first(folder):
    assert run_once(folder) == 0
    assert run_once(folder) == 1


@pytest.mark.compiled_only
@pytest.mark.parametrize(("kind", "content"), [("*.nbi", b"nonsense"), ("*.nbc", b""), ("*.nbc", b"\x80\x04]\x94.")])
def test_damaged_cache_files_are_compiled_anew(folder, kind, content):
    run_once(folder)
    files = list((folder / "cache").rglob(kind))
    assert files
    for file in files:
        file.write_bytes(content)
    assert run_once(folder) == 0
