"""Draws the picture of a sweep in docs/comparing.md: eight seeds by two learning rates of Cartpole.

python -m tools.sweep_picture docs/images/sweep.png

It runs the document's own commands in a temporary directory, which takes a minute or two. `--set key=value` changes a
key, for example to fewer seeds.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "comparing.md"


def sweep_arguments() -> list[str]:
    """The arguments of the document's first command."""
    found = re.search(r"^python train\.py (-m .*?[^\\])$", DOCUMENT.read_text(), re.M | re.S)
    assert found is not None, f"{DOCUMENT} shows no sweep"
    return shlex.split(found[1].replace("\\\n", " "))


def changed(arguments: list[str], changes: list[str]) -> list[str]:
    """The arguments with the values of `changes`, each key=value."""
    keys = {change.partition("=")[0] for change in changes}
    return [*(a for a in arguments if a.partition("=")[0] not in keys), *changes]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.sweep_picture", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="key=value", help="change a key of the sweep")
    options = parser.parse_args()
    out = options.out.absolute()
    with tempfile.TemporaryDirectory() as folder:
        for arguments in (changed(sweep_arguments(), options.set), ["config=report", "reportDir=report"]):
            subprocess.run([sys.executable, ROOT / "train.py", *arguments], cwd=folder, check=True)
        shutil.copyfile(Path(folder) / "report" / "return.png", out)


if __name__ == "__main__":
    main()
