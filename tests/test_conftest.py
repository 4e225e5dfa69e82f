"""--fail-on-skip makes a skipped test visible in the exit code."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SKIPPING = "import pytest\n\ndef test_one():\n    pytest.skip('no such data')\n\ndef test_two():\n    assert True\n"


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--fail-on-skip"], 1), (["--fail-on-skip", "-n", "1"], 1)])
def test_a_skipped_test_fails_the_session_only_on_request(tmp_path, options, code):
    shutil.copy(Path(__file__).parent / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(SKIPPING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert ("test_it.py::test_one: Skipped: no such data" in done.stdout) == bool(options)
