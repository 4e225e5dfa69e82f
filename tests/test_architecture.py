"""Dependencies point one way: workflows to search_spaces to mmbsgd, and mmbsgd needs no cluster."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
FORBIDDEN = {
    "mmbsgd": {"search_spaces", "workflows", "ray", "optuna", "mlflow", "typer", "rich", "pandas", "torch"},
    "search_spaces": {"workflows", "ray", "mlflow"},
    "workflows": {"tests", "benchmarks"},
}


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0] if node.level == 0 else path.parent.name


@pytest.mark.parametrize("package", FORBIDDEN)
def test_a_package_imports_nothing_from_above(package):
    files = list((CHECKOUT / package).rglob("*.py"))
    assert files
    for file in files:
        assert not FORBIDDEN[package] & set(imports_of(file)), file


def test_importing_mmbsgd_pulls_in_no_cluster_no_study_no_tracking():
    names = ["ray", "optuna", "mlflow", "workflows", "search_spaces"]
    code = f"import sys, mmbsgd; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists_and_is_documented():
    import mmbsgd

    for name in mmbsgd.__all__:
        assert hasattr(mmbsgd, name)
        assert name == "__version__" or getattr(mmbsgd, name).__doc__


def test_the_oracle_shares_no_code_with_the_package():
    assert set(imports_of(CHECKOUT / "tests" / "naive.py")) <= {"dataclasses", "itertools", "numpy", "scipy"}


def test_modules_stay_readable():
    for file in (CHECKOUT / "mmbsgd").glob("*.py"):
        assert ast.get_docstring(ast.parse(file.read_text())), f"{file.name} does not say what it is"
        assert len(file.read_text().splitlines()) <= 350, f"{file.name} has grown: split it"
