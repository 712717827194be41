"""Keeps copies of runs on other machines as small as the originals.

    note_pruned(run, [path])            # training: <run>/pruned.txt names what was deleted
    delete_pruned(run, lambda: {7, 9})  # a test that follows a copy of the run

rsync copies new files, and never deletes those that the server has deleted (with `--delete` it would also delete the
tests that were made in the copy). So a training run lists the checkpoints that it deletes, and a test that follows a
copy deletes those there, too. It deletes nothing else: only listed files with the name of a checkpoint, and never the
best one, the newest one, a version that a test needs, or anything in a run that is protected or was written here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path, PureWindowsPath

from livegym.rundir.checkpoint_io import NAME, complete_of, files_of
from livegym.rundir.listing import Entry, best_checkpoint_file, list_playable
from livegym.rundir.lock import written_here
from livegym.rundir.run import Run, nn_of
from livegym.utils.files import atomic_write_text, remove_file

PRUNED = "pruned.txt"
LISTED = 1000  # names in the list: the checkpoints of five hours, if one is written every 20 s


def note_pruned(run_dir: os.PathLike[str], deleted: Iterable[Path]) -> None:
    """Adds deleted checkpoints to the run's list, which keeps the last `LISTED`. Raises OSError."""
    added = [complete_of(path).name for path in deleted]
    if added:
        names = [*dict.fromkeys([*_lines(run_dir), *added])]
        atomic_write_text(Path(run_dir) / PRUNED, "".join(f"{name}\n" for name in names[-LISTED:]))


def pruned_names(run_dir: os.PathLike[str]) -> set[str]:
    """The names of the checkpoints in the run's list; lines that are not such names are ignored."""
    return {name for name in _lines(run_dir) if NAME.fullmatch(name) and PureWindowsPath(name).name == name}


def _lines(run_dir: os.PathLike[str]) -> list[str]:
    try:
        return (Path(run_dir) / PRUNED).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _pruned_here(run: Run) -> list[Entry]:
    """The checkpoints in a run that its list names, except the newest one."""
    pruned = pruned_names(run)
    return [entry for entry in list_playable(run)[1:] if complete_of(entry.path).name in pruned] if pruned else []


def delete_pruned(run: Run, keep: Callable[[], Collection[int]]) -> list[Path]:
    """Deletes the checkpoints of a copied run that its training run has deleted; returns those that are gone.

    It keeps the versions `keep()`, which is called only if the list names a checkpoint here, the best one and the
    newest one, and everything in a run that is protected (`runsPin=`) or was written on this machine, because that is
    no copy.
    """
    pruned = _pruned_here(run)
    if not pruned or run.pin_file.exists() or written_here(run) or nn_of(run).is_symlink():
        return []
    needed = keep()
    found = [entry for entry in pruned if entry.version not in needed]
    best = best_checkpoint_file(run) if found else None
    spared = complete_of(Path(os.path.realpath(best))).name if best is not None else None
    return [entry.path for entry in found if complete_of(entry.path).name != spared and remove_checkpoint(entry.path)]


def remove_checkpoint(path: Path) -> bool:
    """Removes a checkpoint with its policy file and their sidecars; a failure is logged once.

    Returns True if nothing of it is left. A sidecar is removed after its file, because it is useless without it.
    """
    return all(remove_file(file) for file in files_of(path))
