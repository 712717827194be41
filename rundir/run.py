"""Run directories: the only module that names them.

    run = create_run(Path("runs"), "Ant", "train")      # runs/Ant_train_20250801_095943, its nn/ and its summaries/
    point_latest(Path("runs"), "train", run)            # runs/latest_train -> Ant_train_20250801_095943
    list_runs(Path("runs"), "train", "Ant")[0]          # the one that was started last

A run is named once, by one reading of the clock, and created by an exclusive `mkdir`; a second run in the same second
gets `_2`. The newest run is the one that was started last, by its name: file times change when a run is copied.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from livegym.rundir.links import point, read_pointer, twin_of
from livegym.rundir.provenance import Provenance, add_resume, redact_arguments, write_metadata
from livegym.rundir.rsync_filter import write_filter
from livegym.utils.errors import UserError
from livegym.utils.files import atomic_write_text, discard, read_json_dict, strict_json

log = logging.getLogger(__name__)

TRAINING_KINDS = ("train", "continuous")
KINDS = (*TRAINING_KINDS, "test")
_NAME = re.compile(r"(?P<task>[^.].*)_(?P<kind>train|test|continuous)_(?P<when>\d{8}_\d{6})(?:_(?P<number>\d+))?")
_WHEN = "%Y%m%d_%H%M%S"
_IDENTITY = "run.json"
NN = "nn"
LONGEST = 64
"""Characters of a title in a run's name."""


@dataclass(frozen=True)
class Run:
    """One run directory. It can be used as a path."""

    path: Path
    task: str
    kind: str  # train, test or continuous
    run_id: str  # the same wherever the directory is copied to; empty for a directory that livegym did not make

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.path.name

    @property
    def first_name(self) -> str:
        """The name with which the run was created: a copy, a renamed directory and `latest_train` have the same one."""
        stored = read_json_dict(self.path / _IDENTITY).get("name")
        return stored if isinstance(stored, str) and stored else self.path.resolve().name

    @property
    def job_name(self) -> str | None:
        """The name of the job that created the run (`jobName`); None if it had none."""
        stored = read_json_dict(self.path / _IDENTITY).get("job")
        return stored if isinstance(stored, str) else None

    @property
    def nn(self) -> Path:
        """The directory of the checkpoints."""
        return nn_of(self.path)

    @property
    def unstable(self) -> Path:
        """The directory with the last states of environments whose state became non-finite."""
        return self.path / "unstable"

    @property
    def summaries(self) -> Path:
        """The directory of TensorBoard's event files."""
        return self.path / "summaries"

    @property
    def videos(self) -> Path:
        """The directory of recordings."""
        return self.path / "videos"

    @property
    def log_file(self) -> Path:
        """The log file of the run, whatever its kind."""
        return self.path / "train.log"

    @property
    def config_file(self) -> Path:
        """The file with the resolved configuration."""
        return self.path / "config.yaml"

    @property
    def pin_file(self) -> Path:
        """A file that exists if the run must not be deleted."""
        return self.path / "pinned"

    @property
    def parent_file(self) -> Path:
        """The file that names the checkpoint whose weights the run started from; it exists only in such a run."""
        return self.path / "parent.json"

    @property
    def replay_file(self) -> Path:
        """The replay buffer of a continuous run."""
        return self.path / "replay.bin"

    @property
    def priorities_file(self) -> Path:
        """The priorities of the experiences in the replay buffer, if the trainer samples by them."""
        return self.path / "priorities.bin"

    @property
    def decisions(self) -> Path:
        """The directory of a continuous run's decision log."""
        return self.path / "decisions"

    @property
    def sessions_file(self) -> Path:
        """How often a continuous run was started or resumed; decision numbers depend on it, even without a buffer."""
        return self.path / "sessions.txt"

    @property
    def pending_file(self) -> Path:
        """Decisions of a continuous run that were waiting for their reward when it was stopped."""
        return self.path / "pending.npy"

    @property
    def answers_file(self) -> Path:
        """The last request and answer of each stream of a continuous run when it was stopped."""
        return self.path / "conversations.json"

    @property
    def parts_file(self) -> Path:
        """The parts of rewards that had come when a continuous run was stopped."""
        return self.path / "reward_parts.json"

    @property
    def not_learned_file(self) -> Path:
        """The streams of a continuous run that are switched off: they are served, but not learned from."""
        return self.path / "not_learned.json"

    @property
    def history_file(self) -> Path:
        """The points of a continuous run's plots."""
        return self.path / "history.json"

    @property
    def results_file(self) -> Path:
        """The results of a test."""
        return self.path / "results.json"

    @property
    def started(self) -> tuple[datetime, int] | None:
        """The start time and the number within that second, from the run's name; None if the name has another form."""
        return _started(self.name)


def nn_of(run_dir: os.PathLike[str]) -> Path:
    """The directory of the checkpoints of the run in `run_dir`; see `Run.nn`."""
    return Path(run_dir) / NN


def run_of(file: Path) -> Path | None:
    """The run directory that contains a checkpoint file; None if the file is not in a run."""
    return file.parent.parent if file.parent.name == NN else None


def bus_file(run_id: str) -> Path | None:
    """The weight bus of a live run: a file in this host's memory, where no tool copies it.

    None if the id is unusable or the system has no /dev/shm. `run_id="*"`: the pattern of this user's buses.
    """
    if run_id != "*" and not run_id.isalnum():  # a run directory may come from anywhere
        return None
    memory = Path("/dev/shm")  # Linux; other systems have no directory that is certain to be in memory
    return memory / f"livegym.{os.getuid()}.{run_id}" if memory.is_dir() else None


def _started(name: str) -> tuple[datetime, int] | None:
    match = _NAME.fullmatch(name)
    try:
        return (datetime.strptime(match["when"], _WHEN), int(match["number"] or 1)) if match else None
    except ValueError:  # 20251399_000000 is not a time
        return None


def folder_name(title: str) -> str:
    """A title as the beginning of a run's name: `ALE/Pong-v5` -> `ALE-Pong-v5`; empty if nothing is left of it."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", title)[:LONGEST].strip("-.")


def create_run(
    runs_dir: Path, task: str, kind: str, when: datetime | None = None, title: str = "", job_name: str | None = None
) -> Run:
    """Creates a run directory, named by `when` (None: now). Raises UserError if it cannot be created.

    `title`: what the run's name begins with instead of the task, such as the environment that clients run. `job_name`:
    see `Run.job_name`.
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r}, allowed: {KINDS}")
    when = when or datetime.now()
    path: Path | None = None
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        path = _make_exclusively(runs_dir, f"{folder_name(title) or task}_{kind}_{when.strftime(_WHEN)}")
        run = Run(path, task, kind, uuid.uuid4().hex)
        identity = {"run_id": run.run_id, "task": task, "kind": kind, "name": run.name}
        identity |= {} if job_name is None else {"job": job_name}
        atomic_write_text(path / _IDENTITY, strict_json(identity))
        for directory in (run.nn, run.summaries) if kind in TRAINING_KINDS else ():
            directory.mkdir()
    except OSError as error:
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
        raise UserError(
            f"runsDir={runs_dir}: a run directory cannot be created in {runs_dir.absolute()} "
            f"({error.strerror or error}). Choose a writable directory: runsDir=..."
        ) from error
    return run


def _make_exclusively(runs_dir: Path, name: str) -> Path:
    path, number = runs_dir / name, 1
    while True:
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
            path = runs_dir / f"{name}_{number}"
        else:
            return path


def open_run(path: Path) -> Run:
    """The run in an existing directory, identified by its name and its `run.json`; nothing is written.

    A directory of another rl_games program (with an `nn/`) counts as a training run of an unknown task.

    Raises:
        UserError: there is no such directory, or it is not a run.
    """
    if not path.is_dir():
        raise UserError(f"{path}: no such directory ({path.absolute()})")
    run = _identify(path)
    if run is None:
        raise UserError(f"{path}: not a run directory (it has no nn/). Runs are named <Task>_train_<date>_<time>")
    return run


def _identify(path: Path) -> Run | None:
    # The stored identity takes precedence over the name: people rename directories.
    match = _NAME.fullmatch(path.name)
    stored = read_json_dict(path / _IDENTITY)
    if not match and stored.get("kind") not in KINDS and not nn_of(path).is_dir():
        return None
    known = match.groupdict() if match else {"task": "", "kind": "train"}
    known |= {key: value for key, value in stored.items() if isinstance(value, str)}
    kind = known["kind"] if known["kind"] in KINDS else "train"
    return Run(path, known["task"], kind, known.get("run_id", ""))


def list_runs(runs_dir: Path, kind: str | Sequence[str] | None = None, task: str | None = None) -> list[Run]:
    """The runs in `runs_dir`, newest first; only those of the given kind (or kinds) and task.

    Directories with other names and links such as `latest_train` are not listed. A missing `runs_dir` has no runs.
    """
    kinds = KINDS if kind is None else (kind,) if isinstance(kind, str) else tuple(kind)
    try:
        paths = [path for path in runs_dir.iterdir() if _started(path.name) and path.is_dir()]
    except OSError:
        return []
    runs = [run for run in map(_identify, paths) if run and run.kind in kinds and task in (None, run.task)]
    return sorted(runs, key=lambda run: (run.started or (datetime.min, 0), run.name), reverse=True)


def begin_run(runs_dir: Path, task: str, kind: str, provenance: Provenance, title: str = "") -> Run:
    """Creates a run directory with the record that explains it. If that fails, removes it and raises UserError.

    `title`: see `create_run`. A training run also writes the filter for copies, unless `runs_dir` has one.
    """
    run = create_run(runs_dir, task, kind, title=title, job_name=provenance.job_name)
    try:
        write_metadata(run.path, provenance, task)
        if provenance.job is not None:
            provenance.job.note_run(run)
    except OSError as error:
        shutil.rmtree(run.path, ignore_errors=True)
        raise UserError(
            f"runsDir={runs_dir}: {run.path.absolute()} cannot be written ({error.strerror or error}). "
            "Free some space, or choose another directory: runsDir=..."
        ) from error
    if kind in TRAINING_KINDS:
        write_filter(runs_dir)
    return run


def record_resume(run: Run, provenance: Provenance, config_yaml: str) -> None:
    """Add a resume to the run's record; `config_yaml` is the configuration with which it continues.

    A record that cannot be written is logged, and does not stop the run.
    """
    log.info("resumed with: %s", shlex.join(redact_arguments(provenance.argv)))
    try:
        add_resume(run.path, replace(provenance, config_yaml=config_yaml), run.task)
    except OSError as error:
        log.warning("%s: the resume cannot be recorded (%s); the run continues.", run.path, error.strerror or error)


def _latest(runs_dir: Path, kind: str) -> Path:
    return runs_dir / ("latest_test" if kind == "test" else "latest_train")


def point_latest(runs_dir: Path, kind: str, run: Run) -> None:
    """Makes `latest_train` (kinds train and continuous) or `latest_test` point to `run`; see `rundir/links.py`.

    File system errors are never raised: they are logged once, and readers use the text twin or search the runs.
    """
    point(_latest(runs_dir, kind), run.path)


def unpoint_latest(runs_dir: Path, kind: str) -> None:
    """Removes `latest_train` or `latest_test` and its twin, if no run is left that they could name."""
    pointer = _latest(runs_dir, kind)
    if pointer.is_symlink():
        discard(pointer)
    discard(twin_of(pointer))


def read_latest(runs_dir: Path, kind: str) -> Path | None:
    """The run directory that `latest_train` or `latest_test` (a link, or its twin) names; None if there is none."""
    pointer = _latest(runs_dir, kind)
    for path in (read_pointer(pointer), pointer):
        if path is not None and path.is_dir():  # the pointer itself may be a directory copied by a link-following tool
            return path
    return None


def latest_dangles(runs_dir: Path, kind: str) -> bool:
    """True if `latest_...` exists but its target does not."""
    pointer = _latest(runs_dir, kind)
    exists = os.path.lexists(pointer) or pointer.with_suffix(".txt").exists()
    return exists and read_latest(runs_dir, kind) is None
