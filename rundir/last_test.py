"""The checkpoint for `checkpoint=latest_test`: the newest version that a test played and that is still on disk.

A test that follows a training run plays more versions than there are files: the learner deletes old checkpoints, and
the weight bus carries versions that were never saved. If no version that was played has a file, the newest older one of
the same run is used, and the note says so.
"""

from __future__ import annotations

from pathlib import Path, PureWindowsPath
from typing import Any

from livegym.rundir.checkpoint_io import COMPLETE, POLICY, policy_of
from livegym.rundir.listing import Entry, list_playable
from livegym.rundir.run import Run
from livegym.utils.files import read_json_dict


def last_played(test: Run, runs_dir: Path) -> tuple[Path, str] | None:
    """(checkpoint, note) of a test in `runs_dir`; None if nothing that it could have played is on disk."""
    results = read_json_dict(test.results_file)
    first = _first_file(results, runs_dir)
    swaps = [swap for swap in _dicts(results.get("swaps")) if swap.get("accepted") and _is_version(swap.get("version"))]
    if swaps:
        name = swaps[-1].get("run") or _run_name(results)
        played = {swap["version"] for swap in swaps if (swap.get("run") or _run_name(results)) == name}
        entry = _newest(runs_dir, name, played)
        if entry is not None:
            return entry.path, _note(test, entry, played)
    return (first, "") if first is not None else None


def _newest(runs_dir: Path, name: object, played: set[int]) -> Entry | None:
    """The newest checkpoint among the versions that were played, otherwise the newest that is older than the last."""
    if not isinstance(name, str) or not name or Path(name).name != name:
        return None
    entries = [entry for entry in list_playable(runs_dir / name) if entry.version <= max(played)]
    return next((entry for entry in entries if entry.version in played), entries[0] if entries else None)


def _note(test: Run, entry: Entry, played: set[int]) -> str:
    last = max(played)
    if entry.version == last:
        return ""
    detail = "which it also played" if entry.version in played else "the newest older version of that run"
    return (
        f"{test.name} played version {last} last, of which there is no checkpoint; "
        f"testing version {entry.version}, {detail}"
    )


def _first_file(results: dict[str, Any], runs_dir: Path) -> Path | None:
    """The checkpoint that the test began with, if it exists."""
    recorded = results.get("checkpoint")
    if not isinstance(recorded, str) or not recorded.endswith((COMPLETE, POLICY)):
        return None
    # The test may have run elsewhere: the last three parts are <run>/nn/<file>.
    candidates = [Path(recorded), runs_dir.joinpath(*PureWindowsPath(recorded).parts[-3:])]
    return next((path for path in (*candidates, *map(policy_of, candidates)) if path.is_file()), None)


def _run_name(results: dict[str, Any]) -> str:
    """The run of the checkpoint that the test began with; empty if it is not known."""
    recorded = results.get("checkpoint")
    parts = PureWindowsPath(recorded).parts if isinstance(recorded, str) else ()
    return parts[-3] if len(parts) >= 3 else ""


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _is_version(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
