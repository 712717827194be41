"""Everything that decides how environments go on, captured and put back.

Bit-exact resume, the proofs of hot swapping and scratch environments stand on it. A state may be of a few environments
of many; the generator is one for all of them, and part of every state.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from livegym.sim.base import Simulator, Snapshot

if TYPE_CHECKING:
    from livegym.tasks.env import Env

PLACES = re.compile(r' (?:mesh|texture|asset)dir="[^"]*"')  # of the model's files on this machine


def model_digest(sim: Simulator) -> str:
    """What the model is, wherever its files lie."""
    return hashlib.sha256(PLACES.sub("", sim.model_xml()).encode()).hexdigest()


def capture(env: Env, env_ids: Tensor | None = None) -> dict[str, Any]:
    """The state of environments (n,), None: all, as tensors and plain values."""
    ids = torch.arange(env.num_envs, device=env.sim.device) if env_ids is None else env_ids
    return {
        "model": env.model_digest,
        "sim": env.sim.snapshot(ids).arrays,
        "task": {name: value[ids].clone() for name, value in env.task.buffers.items()},
        "env": {name: value[ids].clone() for name, value in _buffers(env).items()},
        "curriculum": env.curriculum.state_dict(),
        "episode_length": env.episode_length[ids].clone(),
        "episode_terms": env.stats.episode_terms[ids].clone(),
        "rng": env.rng.get_state(),
        "steps": env.stability.steps,
    }


def restore(env: Env, state: dict[str, Any], env_ids: Tensor | None = None) -> None:
    """Puts the state of n environments into `env_ids` (n,), or into the first n.

    Raises ValueError where the state is of another task or does not fit; nothing is changed then.
    """
    ids, device = _fitting_ids(env, state, env_ids), env.sim.device
    env.sim.restore(Snapshot(ids, state["sim"]), ids)
    for name, value in state["task"].items():
        env.task.buffers[name][ids] = value.to(device)
    for name, value in _buffers(env).items():
        value[ids] = state["env"][name].to(device)
    env.curriculum.load_state_dict(state["curriculum"])
    env.task.params = env.curriculum.params()
    env.episode_length[ids] = state["episode_length"].to(device)
    env.stats.episode_terms[ids] = state["episode_terms"].to(device)
    env.rng.set_state(state["rng"])
    env.stability.steps = state["steps"]


def _buffers(env: Env) -> dict[str, Tensor]:
    """What is remembered of each environment beside simulator and task: delays, histories, timers; (N, ...)."""
    return {**env.randomizer.buffers, **env.seen.buffers, "level_at_start": env.curriculum.level_at_start}


def _fitting_ids(env: Env, state: dict[str, Any], env_ids: Tensor | None) -> Tensor:
    here = capture(env, torch.arange(1, device=env.sim.device))
    missing = set(here) - set(state)
    if missing:
        raise ValueError(f"the state lacks {', '.join(sorted(missing))}")
    if state["model"] != here["model"]:
        raise ValueError("it is of another model: the MJCF was changed since, or physics is another")
    n = len(state["episode_length"])
    ids = torch.arange(n, device=env.sim.device) if env_ids is None else env_ids
    if len(ids) != n or n > env.num_envs:
        raise ValueError(f"a state of {n} environments does not fit {len(ids)} of {env.num_envs}")
    for part in ("task", "env"):
        theirs, mine = _row_shapes(state[part]), _row_shapes(here[part])
        if theirs != mine:
            raise ValueError(f"the state does not fit: its {part} buffers are {theirs}, here they are {mine}")
    return ids  # the simulator checks its own part, before it changes anything


def _row_shapes(tensors: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape[1:]) for name, value in tensors.items()}
