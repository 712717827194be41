"""Seeds: one number for all random generators, and their states for a bit-exact resume. 0 is a valid seed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def draw_seed() -> int:
    """A seed from the operating system, for `seed=null`. The caller must record it."""
    return random.SystemRandom().randrange(2**31)


def seed_everything(seed: int) -> None:
    """Seeds Python's, numpy's and torch's global generators, on every device."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def generator_states() -> dict[str, Any]:
    """The states of all global generators, as tensors and plain Python values."""
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    version, internal, gauss_next = random.getstate()
    states = {
        "torch": torch.get_rng_state(),
        "numpy": [str(kind), [int(k) for k in keys], int(position), int(has_gauss), float(cached)],
        "python": [version, list(internal), gauss_next],
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def set_generator_states(states: dict[str, Any]) -> None:
    """Restores the result of `generator_states`; GPU states only if this machine has the same number of GPUs."""
    torch.set_rng_state(states["torch"])
    kind, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    version, internal, gauss_next = states["python"]
    random.setstate((version, tuple(internal), gauss_next))
    if torch.cuda.is_available() and len(states.get("cuda", [])) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(states["cuda"])
