"""Where a study runs: versions, machine and the commit of the folder it was started in."""

import os
import platform
import subprocess
from importlib import metadata

PACKAGES = ("mmbsgd", "numpy", "numba", "scikit-learn", "pyarrow", "optuna", "ray", "mlflow")
_SECONDS_FOR_GIT = 3


def environment() -> dict[str, str]:
    found = {f"version.{name}": _version(name) for name in PACKAGES}
    found |= {
        "version.python": platform.python_version(),
        "machine.host": platform.node(),
        "machine.system": f"{platform.system()} {platform.release()}",
        "machine.processor": _processor(),
        "machine.cores": str(os.cpu_count() or ""),
        "machine.memory": _memory(),
        "git.commit": _commit(),
    }
    return {name: value for name, value in found.items() if value}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (OSError, ValueError):
        return ""


def _commit() -> str:
    """Of the folder's repository, with '-dirty' where files differ from it; empty if it has none."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_FOR_GIT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
