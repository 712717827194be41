"""Checkpoints: everything that other parts of livegym need, in one place.

    path = write_checkpoint(run.nn, state, CheckpointMeta(...))     # checkpoint_io.py: one file
    usable = newest_usable(run)                                     # listing.py: which one
    prune(run.nn, keep_last=5)                                      # retention.py: which ones stay

`safe_load.py` reads bytes of unknown origin; `select.py` defines what `checkpoint=latest` means.
"""

from livegym.rundir.checkpoint_io import (
    CheckpointMeta,
    checkpoint_fingerprint,
    files_of,
    meta_of,
    read_checkpoint,
    sidecar_of,
    write_checkpoint,
)
from livegym.rundir.copies import remove_checkpoint
from livegym.rundir.listing import (
    Entry,
    Usable,
    best_checkpoint_file,
    find_latest_checkpoint_file,
    highest_version,
    list_checkpoints,
    list_playable,
    newest_playable,
    newest_usable,
)
from livegym.rundir.retention import (
    clean_temporaries,
    prune,
    prune_env_states,
    read_env_state,
    set_best,
    write_env_state,
)
from livegym.rundir.safe_load import CheckpointError, NotFinite

__all__ = [
    "CheckpointError",
    "CheckpointMeta",
    "Entry",
    "NotFinite",
    "Usable",
    "best_checkpoint_file",
    "checkpoint_fingerprint",
    "clean_temporaries",
    "files_of",
    "find_latest_checkpoint_file",
    "highest_version",
    "list_checkpoints",
    "list_playable",
    "meta_of",
    "newest_playable",
    "newest_usable",
    "prune",
    "prune_env_states",
    "read_checkpoint",
    "read_env_state",
    "remove_checkpoint",
    "set_best",
    "sidecar_of",
    "write_checkpoint",
    "write_env_state",
]
