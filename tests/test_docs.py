"""What the README shows runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


def python_blocks():
    return re.findall(r"^```python\n(.*?)^```$", README.read_text(), flags=re.MULTILINE | re.DOTALL)


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
