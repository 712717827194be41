"""The checkpoints of a run, and which one is the newest.

    list_checkpoints(run)[0]                    # the newest by (version, epoch), not opened
    newest_usable(run)                          # the newest that verifies, loaded; None if none does
    list_playable(run), newest_playable(run)    # likewise, but a policy file is enough: the run may be a copy

The newest has the highest (version, epoch). Names do not sort that way (`ep_90`, `ep_1000`), and file times are no
guide: rsync preserves them, and clocks disagree. livegym's own names contain both numbers. Files of rl_games have the
epoch in their name or content, and it counts as their version too. Nothing here modifies a file.

A checkpoint (`.pth`) can be resumed and played; its policy file (`.policy`) can only be played. A policy file is listed
only if its checkpoint is absent.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from livegym.rundir.checkpoint_io import (
    COMPLETE,
    NAME,
    POLICY,
    checkpoint_fingerprint,
    complete_of,
    meta_of,
    policy_of,
    read_checkpoint,
    score_of,
    sidecar_of,
)
from livegym.rundir.links import targets_of
from livegym.rundir.run import nn_of
from livegym.rundir.safe_load import CheckpointError
from livegym.utils.files import read_json_dict

BEST = "best.pth"
_FOREIGN_EPOCH = re.compile(r"_ep_(\d+)(?!\d)")
ENV_STATE = re.compile(r"env_state_v(\d+)\.pt")
_UNKNOWN = -1  # sorts after every file whose epoch is known


@dataclass(frozen=True)
class Entry:
    """A file that looks like a checkpoint or a policy file; its content is not verified. -1: the number is unknown."""

    path: Path
    version: int
    epoch: int


class Usable(NamedTuple):
    """A verified checkpoint or policy file, and why newer ones were skipped."""

    path: Path
    state: dict[str, Any]
    skipped: list[str]


def list_checkpoints(run_dir: os.PathLike[str]) -> list[Entry]:
    """The complete checkpoints of a run, newest first; empty if there are none.

    Not listed: temporaries of any program, directories, and links to listed files (`best.pth`).
    """
    return _entries(path for path in _names(nn_of(run_dir)) if path.suffix == COMPLETE)


def list_playable(run_dir: os.PathLike[str]) -> list[Entry]:
    """As `list_checkpoints`, and also the policy files whose checkpoint is absent."""
    paths = _names(nn_of(run_dir))
    there = {path.name for path in paths}
    return _entries(path for path in paths if path.suffix == COMPLETE or complete_of(path).name not in there)


def _entries(paths: Iterable[Path]) -> list[Entry]:
    files: dict[str, Path] = {}
    for path in sorted(paths, key=lambda p: (p.is_symlink(), p.name == BEST, p.name)):
        if path.is_file():
            files.setdefault(os.path.realpath(path), path)
    entries = [Entry(path, *_numbers(path)) for path in files.values()]
    return sorted(entries, key=_order, reverse=True)


def _names(nn_dir: Path) -> list[Path]:
    try:
        paths = list(nn_dir.iterdir())
    except OSError:
        return []
    return [p for p in paths if p.suffix in (COMPLETE, POLICY) and not p.name.startswith((".", "~"))]


def _order(entry: Entry) -> tuple[int, int, bool, int, str]:
    try:
        modified = os.stat(entry.path).st_mtime_ns
    except OSError:  # pruned since it was listed
        modified = 0
    # A copy of the best checkpoint (made by a tool that follows links) sorts after the original.
    return entry.version, entry.epoch, entry.path.name != BEST, modified, entry.path.name


def _numbers(path: Path) -> tuple[int, int]:
    return _numbers_outside(path) or _numbers_inside(path, checkpoint_fingerprint(path))


def version_of(path: Path) -> int:
    """The version of a checkpoint or policy file; -1 if it is unknown."""
    return _numbers(path)[0]


def _numbers_outside(path: Path) -> tuple[int, int] | None:
    """(version, epoch) according to the name; if the name has none, according to the sidecar."""
    own = NAME.fullmatch(complete_of(path).name)
    if own:
        return int(own["version"]), int(own["epoch"])
    sidecar = read_json_dict(sidecar_of(path))
    version, epoch = sidecar.get("version"), sidecar.get("epoch")
    if type(version) is int and type(epoch) is int:
        return version, epoch
    foreign = _FOREIGN_EPOCH.search(path.name)
    return (int(foreign[1]), int(foreign[1])) if foreign else None


@functools.lru_cache(maxsize=64)
def _numbers_inside(path: Path, fingerprint: Hashable) -> tuple[int, int]:
    # `fingerprint` is part of the cache key, so that only a changed file is read again.
    try:
        state = read_checkpoint(path)
        meta = meta_of(state)
    except CheckpointError:
        return _UNKNOWN, _UNKNOWN
    if meta:
        return meta.version, meta.epoch
    epoch = state.get("epoch")
    return (epoch, epoch) if type(epoch) is int else (_UNKNOWN, _UNKNOWN)


def find_latest_checkpoint_file(run_dir: os.PathLike[str]) -> Path | None:
    """The newest file of a run that can be played, or None. It is not opened, so it may still be arriving."""
    entries = list_playable(run_dir)
    return entries[0].path if entries else None


def newest_usable(run_dir: os.PathLike[str]) -> Usable | None:
    """The newest complete checkpoint of a run that verifies, with its state; None if none does."""
    return first_usable(list_checkpoints(run_dir))[0]


def newest_playable(run_dir: os.PathLike[str]) -> Usable | None:
    """The newest checkpoint or policy file of a run that verifies, with its state; None if none does."""
    return first_usable(list_playable(run_dir))[0]


def first_usable(entries: list[Entry]) -> tuple[Usable | None, list[str]]:
    """The first of `entries` that verifies, or None; and what is wrong with each entry before it."""
    skipped: list[str] = []
    for entry in entries:
        try:
            return Usable(entry.path, read_checkpoint(entry.path), skipped), skipped
        except CheckpointError as error:
            skipped.append(str(error))
    return None, skipped


def best_checkpoint_file(run_dir: os.PathLike[str]) -> Path | None:
    """The checkpoint with the best score, or its policy file if the checkpoint is absent.

    It is found by the link `best.pth`, its text twin, or the sidecars. None if nothing has a score yet.
    """
    link = nn_of(run_dir) / BEST
    targets = list(targets_of(link))
    for target in (*targets, *map(policy_of, targets)):
        if target.is_file():
            return target
    if link.is_file():  # a copy made by a tool that follows links
        return link
    scored = [(score, entry) for entry in list_playable(run_dir) if (score := score_of(entry.path)) is not None]
    return max(scored, key=lambda pair: (pair[0], pair[1].version))[1].path if scored else None


def highest_version(run_dir: os.PathLike[str]) -> int:
    """The highest policy version in any file name or sidecar of the run; 0 if there is none.

    Sidecars and environment states whose checkpoint is gone count too, so that no version is assigned twice.
    """
    nn_dir = nn_of(run_dir)
    names = {p.with_suffix("") if p.suffix == ".json" else p for p in _children(nn_dir) if not p.name.startswith(".")}
    numbers = [_numbers_outside(path) for path in names if path.suffix in (COMPLETE, POLICY)]
    states = [ENV_STATE.fullmatch(path.name) for path in _children(Path(run_dir))]
    versions = [n[0] for n in numbers if n] + [int(m[1]) for m in states if m]
    return max(versions, default=0)


def _children(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []
