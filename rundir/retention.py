"""Which checkpoints are kept: the best one, the newest few, and every n-th for good.

    set_best(run.nn, path)                       # best.pth -> Ant_v7_ep7.pth
    prune(run.nn, keep_last=5, keep_every=100)

`keep_last=5` bounds the disk space of a run. What is deleted is listed, so that it can be deleted in copies of the run
too (`rundir/copies.py`). The environments' state is large and only of use together with the newest
checkpoint, so only one is kept. A file that cannot be deleted is logged once: cleaning up never stops a training run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from livegym.rundir.checkpoint_io import NAME, complete_of, plain_copy, read_bytes, to_bytes
from livegym.rundir.copies import note_pruned, remove_checkpoint
from livegym.rundir.links import point
from livegym.rundir.listing import BEST, ENV_STATE, Entry, best_checkpoint_file, list_playable
from livegym.rundir.safe_load import CheckpointError, load_bytes
from livegym.utils import files
from livegym.utils.files import atomic_write_bytes, remove_file


def set_best(nn_dir: Path, path: Path) -> None:
    """Makes `best.pth` (a relative link) and `best.txt` point to the checkpoint `path`; warns if that fails."""
    point(nn_dir / BEST, path)


def prune(nn_dir: Path, keep_last: int | None, keep_every: int | None = None) -> list[Path]:
    """Removes old checkpoints with their policy files and sidecars; returns the removed checkpoints.

    It keeps the best one, the newest `keep_last` (None or -1: all; at least one) and those whose epoch is a multiple
    of `keep_every`. It removes only files with livegym's own names, and adds them to the run's list. Raises OSError if
    the list cannot be written.
    """
    if keep_last is None or keep_last < 0:
        return []
    entries = [entry for entry in list_playable(nn_dir.parent) if NAME.fullmatch(complete_of(entry.path).name)]
    best = best_checkpoint_file(nn_dir.parent)
    spared = os.path.realpath(best) if best else None
    old = entries[max(keep_last, 1) :]
    removed = [e.path for e in old if not _is_kept(e, spared, keep_every) and remove_checkpoint(e.path)]
    note_pruned(nn_dir.parent, removed)
    return removed


def _is_kept(entry: Entry, spared: str | None, keep_every: int | None) -> bool:
    every_nth = bool(keep_every) and entry.epoch % (keep_every or 1) == 0
    return every_nth or os.path.realpath(entry.path) == spared


def clean_temporaries(nn_dir: Path) -> list[Path]:
    """Removes temporaries of killed writers in `nn_dir` and the run directory; only the run's writer may call it."""
    return files.clean_temporaries(nn_dir) + files.clean_temporaries(nn_dir.parent)


def _env_state_path(run_dir: os.PathLike[str], version: int) -> Path:
    return Path(run_dir) / f"env_state_v{version}.pt"


def write_env_state(run_dir: os.PathLike[str], version: int, state: dict[str, Any]) -> Path:
    """Writes the environments' state that belongs to the checkpoint of `version`; returns its path.

    Raises:
        TypeError: a value is neither a tensor nor plain Python; the message names its keys.
        OSError: it could not be written; nothing is left behind.
    """
    path = _env_state_path(run_dir, version)
    atomic_write_bytes(path, to_bytes(plain_copy(state, "env_state")))
    return path


def read_env_state(run_dir: os.PathLike[str], version: int) -> dict[str, Any] | None:
    """The environments' state that belongs to the checkpoint of `version`; None if it was not kept.

    Raises:
        CheckpointError: the file exists and is damaged.
    """
    path = _env_state_path(run_dir, version)
    if not path.exists():
        return None
    try:
        state = load_bytes(read_bytes(path))
    except CheckpointError as error:
        raise CheckpointError(f"{path.name}: {str(error).removeprefix(f'{path.name}: ')}") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path.name}: is not an environment state")
    return state


def prune_env_states(run_dir: os.PathLike[str], version: int) -> list[Path]:
    """Removes environment states older than `version`; call it once the checkpoint of `version` is complete."""
    matches = [(path, ENV_STATE.fullmatch(path.name)) for path in Path(run_dir).iterdir()]
    old = [path for path, match in matches if match and int(match[1]) < version]
    return [path for path in old if remove_file(path)]
