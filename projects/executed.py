"""The files of foreign code that this process has executed, each with the SHA-256 of what was executed.

    note(file, content)                  # before it runs
    below(checkout.root)                 # {"isaacgymenvs/tasks/ant.py": "5f1c..."}

Modules stay imported as long as the process lives, so this table does, too. `compat/foreign/announced.py` fills it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

_digests: dict[Path, str] = {}


def note(file: Path, content: bytes) -> tuple[str, bool]:
    """Remember that a file is about to run; returns its SHA-256, and whether that is news."""
    digest = hashlib.sha256(content).hexdigest()
    news = _digests.get(file) != digest
    _digests[file] = digest
    return digest, news


def below(root: Path) -> dict[str, str]:
    """The files in a folder that have been executed, by their name from there -> SHA-256."""
    found = {file: digest for file, digest in _digests.items() if file.is_relative_to(root)}
    return {file.relative_to(root).as_posix(): found[file] for file in sorted(found)}
