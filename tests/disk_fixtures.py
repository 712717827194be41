"""A run directory and a full disk."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@pytest.fixture
def run(tmp_path) -> Path:
    """A run directory with an empty nn/."""
    (tmp_path / "nn").mkdir()
    return tmp_path


@contextmanager
def tmpfs(disk: Path, size: str) -> Iterator[Path]:
    """A real file system of `size` at `disk`; skips the test where it cannot be mounted."""
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 2 MB."""
    with tmpfs(tmp_path / "disk", "2m") as disk:
        yield disk
