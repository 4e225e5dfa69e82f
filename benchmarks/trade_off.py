"""Draws docs/trade-off.svg: the trade-off on IJCNN, from a real study of 400 trials made for the picture."""

import tempfile
from pathlib import Path

from frame import ROOT
from orchestration import mmbsgd


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="mmbsgd-picture-") as name:
        home = Path(name)
        mmbsgd("data", "get", "ijcnn", "--home", home)
        mmbsgd("tune", "ijcnn", "--trials", 400, "--seed", 1, "--home", home, "--no-tracking")
        mmbsgd("front", "ijcnn", "--home", home, "--svg", ROOT / "docs" / "trade-off.svg")


if __name__ == "__main__":
    main()
