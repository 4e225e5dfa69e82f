"""Draws docs/tune.svg: what a person sees when `mmbsgd tune demo` has ended, from a real study made for the picture."""

import re
import tempfile
from pathlib import Path

from rich.console import Console

from workflows.commands import front as command
from workflows.study import Job, run

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 80


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="mmbsgd-picture-") as name:
        run(Job("demo", trials=200, seed=1, tracking=False, home=Path(name)))
        screen = command.console = Console(record=True, width=WIDTH, force_terminal=True, file=open("/dev/null", "w"))  # noqa: SIM115
        command.front("demo", home=Path(name))
    drawn = screen.export_svg(title="mmbsgd tune demo")
    # Fonts would come from a server elsewhere: the reader's own will do.
    (ROOT / "docs" / "tune.svg").write_text(re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL))


if __name__ == "__main__":
    main()
