"""One checkpoint: its name and its content, and how it is written and read.

    path = write_checkpoint(run.nn, state, CheckpointMeta(task="Ant", run_id=run.run_id, version=7, epoch=7, ...))
    state = read_checkpoint(path)      # raises CheckpointError, whose one line says what is wrong

`Ant_v7_ep7.pth` holds `model` (parameters and buffers), `config`, `spec`, the learner's state and, under `livegym`, the
metadata. Its sidecar `Ant_v7_ep7.pth.json` can be read by people and without loading the checkpoint.

Beside it is its policy file, `Ant_v7_ep7.policy`, for copies on other machines: the part of the checkpoint that is
enough to play its version, a sixth of its size. It has the same format and a sidecar of its own, but nothing can be
resumed from it. Every file is complete or absent, and a name is never written twice. The files hold only tensors and
plain Python values.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import math
import os
import re
import stat
import time
from collections.abc import Hashable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from livegym.rundir.safe_load import LOAD_ERRORS, CheckpointError, NotFinite, in_one_line, load_bytes
from livegym.utils.files import commit, commit_new, discard, read_json, read_json_dict, stage_bytes, strict_json

FORMAT = 1
META_KEY = "livegym"
NAME = re.compile(r"(?P<task>.+)_v(?P<version>\d+)_ep(?P<epoch>\d+)\.pth")
COMPLETE = ".pth"
POLICY = ".policy"
_SIDECAR = ".json"
COMPILED = "_orig_mod."
_SCALARS = (type(None), bool, int, float, str)


def _installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True)
class CheckpointMeta:
    """Metadata of a checkpoint.

    The best checkpoint is the one with the highest `score`: the mean return of finished episodes, or the mean reward
    of a continuous run's decisions; None if there is none yet. A non-finite score is stored as None, because no later
    score could beat it. In files, `score` and `best_score` are called `reward` and `best_reward`.
    """

    task: str
    run_id: str
    version: int
    epoch: int
    frame: int
    shape_hash: str
    score: float | None = None
    best_score: float | None = None
    wall_time: float = field(default_factory=time.time)  # seconds since 1970
    format: int = FORMAT
    livegym: str = field(default_factory=lambda: _installed("livegym"))
    rl_games: str = field(default_factory=lambda: _installed("rl-games"))
    torch: str = field(default_factory=lambda: str(torch.__version__))

    def __post_init__(self) -> None:
        for name in ("score", "best_score"):
            value = getattr(self, name)
            known = float(value) if value is not None and math.isfinite(value) else None
            object.__setattr__(self, name, known)

    def to_dict(self) -> dict[str, Any]:
        """The metadata under the keys that files use."""
        return {key: getattr(self, name) for name, key in _STORED.items()}


_IN_FILES = {"score": "reward", "best_score": "best_reward"}
_STORED = {f.name: _IN_FILES.get(f.name, f.name) for f in fields(CheckpointMeta)}
"""Field -> its key in a checkpoint and its sidecar."""
_TEXTS = ("task", "run_id", "shape_hash", "livegym", "rl_games", "torch")
_COUNTS = ("version", "epoch", "frame", "format")


def meta_of(state: dict[str, Any]) -> CheckpointMeta | None:
    """The metadata in a checkpoint's state; None in a plain rl_games file.

    Raises:
        CheckpointError: the metadata lacks a value, has one of the wrong type, or is of a newer format.
    """
    stored = state.get(META_KEY)
    if stored is None:
        return None
    if not isinstance(stored, dict):
        raise CheckpointError("has metadata that is not a dictionary")
    wrong = [key for name, key in _STORED.items() if not _well_typed(name, stored.get(key))]
    if wrong:
        raise CheckpointError(f"has metadata with a missing or wrong {', '.join(wrong)}")
    if stored["format"] > FORMAT:
        raise CheckpointError(f"has format {stored['format']}; this livegym reads up to {FORMAT}. Update livegym")
    return CheckpointMeta(**{name: stored[key] for name, key in _STORED.items()})


def _well_typed(name: str, value: Any) -> bool:
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _COUNTS:
        return type(value) is int and value >= 0
    return (value is None and name != "wall_time") or type(value) is float


def sidecar_of(path: Path) -> Path:
    """The JSON file beside a checkpoint."""
    return path.with_name(path.name + _SIDECAR)


def policy_of(path: Path) -> Path:
    """The policy file of a checkpoint: the part of it that is enough to play its version."""
    return path.with_suffix(POLICY)


def complete_of(path: Path) -> Path:
    """The complete checkpoint to which a policy file belongs."""
    return path.with_suffix(COMPLETE)


def files_of(path: Path) -> list[Path]:
    """The files that a checkpoint may have: itself and its policy file, each before its sidecar."""
    complete, policy = complete_of(path), policy_of(path)
    return [complete, sidecar_of(complete), policy, sidecar_of(policy)]


def score_of(path: Path) -> float | None:
    """The score in a checkpoint's sidecar; None if it has no score, or if the sidecar cannot be read."""
    score = read_json_dict(sidecar_of(path)).get(_STORED["score"])
    return float(score) if isinstance(score, (int, float)) else None


def write_checkpoint(nn_dir: Path, state: dict[str, Any], meta: CheckpointMeta) -> Path:
    """Writes a checkpoint, its policy file and their sidecars; returns the checkpoint's path.

    `state` has `model` (name -> tensor), `config`, `spec` and whatever the learner needs to resume.

    Raises:
        NotFinite: the model has NaN or Inf; nothing was written.
        CheckpointError: a checkpoint of this name exists; nothing was written.
        TypeError: a value is neither a tensor nor plain Python; the message names its keys.
        OSError: it could not be written (disk full); nothing is left behind.
    """
    path = nn_dir / f"{meta.task}_v{meta.version}_ep{meta.epoch}{COMPLETE}"
    contents: dict[Path, bytes] = {}
    for file, part in ((path, state), (policy_of(path), _policy_part(state))):
        contents[file] = _serialise(file.name, {**part, META_KEY: meta.to_dict()})
        contents[sidecar_of(file)] = _sidecar(contents[file], meta)
    staged: dict[Path, Path] = {}
    try:
        for file, data in contents.items():
            staged[file] = stage_bytes(file, data)
        _commit_all(staged)
    except FileExistsError as error:
        raise CheckpointError(f"{path}: exists; a checkpoint's name is never written twice") from error
    finally:
        for temporary in staged.values():
            discard(temporary)  # after a success they are gone already
    return path


def _commit_all(staged: dict[Path, Path]) -> None:
    """Commit each staged file; if one fails, remove those that were committed before it."""
    committed: list[Path] = []
    try:
        for file, temporary in staged.items():
            replaces = file.suffix == _SIDECAR  # a deleted checkpoint may have left one
            (commit if replaces else commit_new)(temporary, file)
            committed.append(file)
    except OSError:
        for file in committed:
            discard(file)
        raise


def _policy_part(state: dict[str, Any]) -> dict[str, Any]:
    """The part of a checkpoint that a test reads: the policy, how it was trained, and the curriculum's level."""
    part: dict[str, Any] = {key: state[key] for key in ("model", "config", "spec", "epoch", "frame") if key in state}
    level = state.get("learner", {}).get("curriculum")
    if level is not None:
        part["learner"] = {"curriculum": level}
    return part


def _serialise(name: str, state: dict[str, Any]) -> bytes:
    data = to_bytes(plain_copy(state, "state"))
    _state_in(name, data)  # a checkpoint that cannot be read back must not be written
    return data


def to_bytes(plain: Any) -> bytes:
    """The bytes of a `.pth` with these tensors and plain values."""
    buffer = io.BytesIO()
    torch.save(plain, buffer)
    return buffer.getvalue()


def _sidecar(data: bytes, meta: CheckpointMeta) -> bytes:
    keys = ("version", "epoch", "frame", "reward", "shape_hash", "wall_time", "task", "run_id")
    stored = meta.to_dict()
    content = {key: stored[key] for key in keys}
    content |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    return strict_json(content).encode()


def plain_copy(value: Any, name: str) -> Any:
    """`value` with its tensors detached, on the CPU, and copied out of any larger storage that they are views of.

    Raises:
        TypeError: a value is neither a tensor nor plain Python (e.g. a NumPy value); the message names its keys.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, torch.Tensor) and kind in (torch.Tensor, torch.nn.Parameter):
        tensor = value.detach().cpu()
        whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
        return tensor if whole and tensor.is_contiguous() else tensor.contiguous().clone()
    if isinstance(value, dict):
        bad = [key for key in value if type(key) not in _SCALARS]
        if bad:
            raise TypeError(f"{name} has a key of type {type(bad[0]).__name__}; a checkpoint holds plain keys only")
        return {key: plain_copy(item, f"{name}[{key!r}]") for key, item in value.items()}
    if kind in (list, tuple):
        return kind(plain_copy(item, f"{name}[{i}]") for i, item in enumerate(value))
    raise TypeError(f"{name} is a {kind.__module__}.{kind.__name__}; a checkpoint holds tensors and plain Python only")


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state in a checkpoint, fully verified: complete, harmless, with a finite model, on the CPU.

    The file is read once, and exactly the bytes that were verified are loaded. A link is followed first. Model keys
    come without the prefix of torch.compile.

    Raises:
        CheckpointError: names in one line the file and what is wrong with it, whatever the file holds.
    """
    path = _without_links(path)
    data = read_bytes(path)
    _check_sidecar(path, data)
    return _state_in(path.name, data)


def _without_links(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except ValueError:  # a NUL in the name; opening the file reports it
        return path


def read_bytes(path: Path) -> bytes:
    """The content of a regular file.

    Raises:
        CheckpointError: the file is gone, is not a regular file, or cannot be read.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would block forever
            raise CheckpointError(f"{path.name}: is not a file")
        return path.read_bytes()
    except (OSError, ValueError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or in_one_line(error)
        raise CheckpointError(f"{path.name}: cannot be read ({reason})") from error


def _check_sidecar(path: Path, data: bytes) -> None:
    try:
        sidecar = read_json(sidecar_of(path))
        agrees = (sidecar["bytes"], sidecar["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    except FileNotFoundError:
        return  # the zip's own checksums still protect the file
    except (OSError, ValueError, LookupError, TypeError):
        agrees = False
    if not agrees:
        raise CheckpointError(f"{path.name}: does not match its sidecar (still being copied?)")


def _state_in(name: str, data: bytes) -> dict[str, Any]:
    try:
        state = load_bytes(data)
        if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
            raise CheckpointError("has no 'model'")
        state["model"] = _checked_model(state["model"])
        meta_of(state)
        for key in ("config", "spec"):
            if not isinstance(state.get(key, {}), (dict, type(None))):
                raise CheckpointError(f"has a '{key}' that is not a dictionary")
    except CheckpointError as error:
        raise type(error)(f"{name}: {error}") from error
    return state


def _checked_model(model: dict[Any, Any]) -> dict[str, torch.Tensor]:
    checked: dict[str, torch.Tensor] = {}
    for key, tensor in model.items():
        plain = isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and not tensor.is_quantized
        if not isinstance(key, str) or not plain:
            raise CheckpointError(f"has a 'model' with {in_one_line(ValueError(key))!r}, which is not a tensor")
        if not _is_finite(tensor):
            raise NotFinite(f"has NaN or Infinity in {key!r}")
        name = key.removeprefix(COMPILED)
        if name in checked:
            raise CheckpointError(f"has {name!r} twice, with and without {COMPILED!r}")
        checked[name] = tensor.detach()
    if not checked:
        raise CheckpointError("has an empty 'model'")
    return checked


def _is_finite(tensor: torch.Tensor) -> bool:
    try:
        return bool(torch.isfinite(tensor).all())
    except LOAD_ERRORS as error:  # torch cannot check this dtype
        raise CheckpointError(f"has a tensor of an unsupported dtype ({in_one_line(error)})") from error


def checkpoint_fingerprint(path: Path) -> Hashable:
    """A value that changes whenever the file or its sidecar does (size, time or inode); then reading can be retried."""
    path = _without_links(path)
    return tuple(_stamp(p) for p in (path, sidecar_of(path)))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
