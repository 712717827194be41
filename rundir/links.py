"""Pointers such as `latest_train`: a relative symbolic link, and a text twin in case links do not survive a copy.

    point(runs / "latest_train", runs / "Ant_train_20250801_095943")
    read_pointer(runs / "latest_train")     # -> runs/Ant_train_20250801_095943

The link is relative, so it stays valid if `runs/` is copied to another machine. It is replaced by renaming a new link
over it, so a reader never sees it missing, and no link is created inside the directory that it points to. The twin
(`latest_train.txt`) holds the same text for systems without links. A pointer is a convenience: no failure here stops a
training run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath

from livegym.utils.files import atomic_write_text, commit, discard, read_first_line, temporary_name, warn_once


def twin_of(link: Path) -> Path:
    """The text file beside `link` that names the same target."""
    return link.with_suffix(".txt")


def point(link: Path, target: Path) -> None:
    """Makes `link` and its twin point to `target`, atomically. A failure is logged once as a warning and never raised.

    A real directory with the link's name is left alone. A plain file or another link is replaced.
    """
    text = _relative(link, target)
    linked = _replace_link(link, text)
    try:
        atomic_write_text(twin_of(link), text + "\n")
    except OSError as error:
        warn_once(f"{twin_of(link)} could not be written ({error.strerror or error})")
    if not linked and link.is_symlink():
        discard(link)  # an outdated link would take precedence over the new twin


def _relative(link: Path, target: Path) -> str:
    resolved = os.path.join(os.path.realpath(target.parent), target.name)
    return Path(os.path.relpath(resolved, os.path.realpath(link.parent))).as_posix()


def _replace_link(link: Path, text: str) -> bool:
    if link.is_dir() and not link.is_symlink():
        warn_once(f"{link} is a directory, not a link; it is left alone and {twin_of(link).name} is used instead")
        return False
    temporary = temporary_name(link)
    try:
        os.symlink(text, temporary)
        commit(temporary, link)
    except OSError as error:
        warn_once(f"{link} could not be created ({error.strerror or error}); {twin_of(link).name} is used instead")
        return False
    return True


def read_pointer(link: Path) -> Path | None:
    """The target of `link`, or of its twin if the link has none; None if neither target exists.

    An absolute target from another machine is looked up beside the link, by its last part.
    """
    return next((target for target in targets_of(link) if os.path.exists(target)), None)


def targets_of(link: Path) -> Iterator[Path]:
    """The targets that `link` or its twin may mean, whether they exist or not; see `read_pointer`."""
    for text in _texts(link):
        yield from (target for target in _candidates(link, text) if target.name != link.name)


def _texts(link: Path) -> Iterator[str]:
    with contextlib.suppress(OSError, ValueError):
        yield os.readlink(link)
    yield read_first_line(twin_of(link))


def _candidates(link: Path, text: str) -> Iterator[Path]:
    if not text:
        return
    yield link.parent / text  # an absolute text replaces the parent
    name = PureWindowsPath(text).name  # knows both kinds of separators
    if name:
        yield link.parent / name
