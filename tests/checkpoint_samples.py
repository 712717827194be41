"""Small checkpoints and run directories for tests, made with the product's own writers."""

from __future__ import annotations

import io
import os
import zipfile
from collections import OrderedDict
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from livegym.rundir.checkpoint import CheckpointMeta, write_checkpoint
from livegym.rundir.run import Run, create_run


def meta(version: int = 7, epoch: int | None = None, reward: float | None = None, task: str = "Ant") -> CheckpointMeta:
    """The metadata of a checkpoint whose epoch equals its version."""
    epoch = version if epoch is None else epoch
    return CheckpointMeta(task, "r" * 32, version, epoch, 100 * epoch, "cafe", score=reward)


def state(value: float = 0.5) -> dict[str, Any]:
    """A learner's state whose every weight is `value`."""
    return {
        "model": {"a2c_network.mu.weight": torch.full((3, 4), value), "running_mean_std.count": torch.ones(())},
        "config": {"task": {"name": "Ant"}, "seed": 0},
        "spec": {"observations": ["qpos"]},
        "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 3e-4, "betas": (0.9, 0.999)}]},
        "epoch": 7,
    }


def save(run_dir: Path, version: int, reward: float | None = None, value: float = 0.5, task: str = "Ant") -> Path:
    """A checkpoint in `run_dir`/nn."""
    return write_checkpoint(run_dir / "nn", state(value), meta(version, reward=reward, task=task))


def new_run(runs: Path, when: str, task: str = "Ant", kind: str = "train", versions: tuple[int, ...] = ()) -> Run:
    """A run started at `when` (YYYYmmdd_HHMMSS) with checkpoints of these versions."""
    run = create_run(runs, task, kind, datetime.strptime(when, "%Y%m%d_%H%M%S"))
    for version in versions:
        save(run.path, version, task=task)
    return run


def as_bytes(content: object) -> bytes:
    """What torch.save makes of `content`."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def put(run: Path, name: str, data: bytes) -> Path:
    """A file in nn/ that our writer did not make."""
    path = run / "nn" / name
    path.write_bytes(data)
    return path


def with_pickle(program: bytes, **members: bytes) -> bytes:
    """A zip that looks like PyTorch's, with another pickle in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/byteorder", b"little")
        archive.writestr("archive/version", b"3\n")
        for name, data in members.items():
            archive.writestr(f"archive/data/{name.lstrip('_')}", data)
    return buffer.getvalue()


def rl_games_file(numpy_one: bool = False, **changes: object) -> bytes:
    """A file as rl_games saves it: an OrderedDict, NumPy scalars, and the prefix of torch.compile."""
    model = OrderedDict({"_orig_mod.a2c_network.mu.weight": torch.ones(2, 3), "value_mean_std.count": torch.ones(())})
    content = {
        "model": model,
        "epoch": 950,
        "frame": 15_200,
        "optimizer": torch.optim.Adam([torch.nn.Parameter(torch.ones(2))]).state_dict(),
        "last_mean_rewards": np.float32(12.5),
        "env_state": None,
        **changes,
    }
    data = as_bytes(content)
    if not numpy_one:
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    return buffer.getvalue()


class Shell:
    """Pickles to a call of os.system."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)
