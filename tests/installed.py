"""livegym as others have it: wheels, installed in an environment without a checkout in sight."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent


def tracked_copy(target: Path) -> Path:
    """The files that git knows, as they are now: a build writes beside its sources, and not into the checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


def wheel(source: Path, target: Path) -> Path:
    """Builds the wheel of a project in `source`; nothing is downloaded."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", str(source)]
    done = subprocess.run([*command, "--wheel-dir", str(target)], cwd=target, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return max(target.glob("*.whl"), key=lambda file: file.stat().st_mtime)


class Environment:
    """A virtual environment that sees the libraries of this one, but not its editable installs."""

    def __init__(self, folder: Path, libraries: bool = True) -> None:
        """`libraries=False`: nothing but what is installed into it."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        if libraries:  # a plain path: the .pth files in it, which editable installs live by, are not read
            (site,) = folder.glob("lib/python*/site-packages")
            (site / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")

    def install(self, *wheels: Path) -> None:
        """Installs wheels, without what they require."""
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        subprocess.run([*command, "--no-deps", "--no-index", *map(str, wheels)], check=True)

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables in which nothing leads back to the checkout."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return {**kept, "PATH": f"{self.bin}{os.pathsep}{kept['PATH']}"}

    def run(self, cwd: Path, *command: str) -> str:
        """Runs a command of this environment to its end; returns what it printed, and fails unless it ended well."""
        done = self.try_to_run(cwd, *command)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
        return done.stdout

    def try_to_run(self, cwd: Path, *command: str) -> subprocess.CompletedProcess[str]:
        """The same, whatever its exit status."""
        program = self.bin / command[0]
        return subprocess.run(
            [str(program), *command[1:]], cwd=cwd, env=self.variables, timeout=PATIENCE_S, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
