"""Capture and restore all state that determines a learner's next iteration.

The state has two parts, which are stored differently. The *learner state* goes into every checkpoint: the algorithm's
own (`Learner.state`: weights, normaliser, optimizer, ...), counters, generators, and the curriculum's level. The
*environment state* (`Learner.environment_state`) is larger and is useful only with the newest checkpoint, so it has its
own file. With both, on a CPU with one tensor thread, k iterations, a stop, a resume and m more give the same as k + m,
bit for bit.
"""

from __future__ import annotations

from typing import Any

from livegym.rl.divergence import not_finite
from livegym.rl.learner import Learner
from livegym.utils.errors import UserError
from livegym.utils.seeding import generator_states, set_generator_states

FROM_WEIGHTS = "Start a new run from its weights instead: leave out resume=true."


def capture_learner(learner: Learner) -> dict[str, Any]:
    """The learner's own state, and the state that all learners have. Only tensors, not copied, and plain values."""
    state = learner.state()
    state["epoch"], state["frame"] = learner.epoch, learner.frame
    common: dict[str, Any] = {"generators": generator_states()}
    if learner.env.config.curriculum is not None:
        common["curriculum"] = learner.env.curriculum.level
    state["learner"] = {**state.get("learner", {}), **common}
    return state


def restore_learner(learner: Learner, state: dict[str, Any], version: int) -> float | None:
    """Restore a captured learner state, and return the best return; `version` is the last one that was assigned.

    Raises UserError if the state is not that of a livegym learner, or does not fit this one.
    """
    check_learner(learner, state)
    learner.load_state(state)
    learner.epoch = int(state["epoch"])
    learner.frame = int(state["frame"])
    learner.version = version
    common = state["learner"]
    set_generator_states(common["generators"])
    if "curriculum" in common:
        learner.env.set_level(common["curriculum"])
    best_return: float | None = common["best_return"]
    return best_return


def check_learner(learner: Learner, state: dict[str, Any]) -> None:
    """Raises UserError if a state is incomplete or non-finite, or does not fit this learner. Changes nothing."""
    expected = capture_learner(learner)
    learner.note_best_return(expected, None)
    lacking = [key for key in learner.needed if key not in state]
    if "model" in state:
        learner.check_weights(state)
    lacking += [f"learner.{key}" for key in expected["learner"] if key not in state.get("learner", {})]
    if lacking:
        raise UserError(f"this checkpoint has no {', '.join(lacking)}, so it cannot be resumed. {FROM_WEIGHTS}")
    learner.check_state(state)
    broken = not_finite(state)
    if broken is not None:
        raise UserError(f"this checkpoint has NaN or Infinity in {broken}, so it cannot be resumed. {FROM_WEIGHTS}")
