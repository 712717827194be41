"""The control loop: all code that plays a policy runs this loop, and everything else attaches to it.

    player = Player(env, actor, quota=quotas(25, env.num_envs))
    player.attach(results_recorder)
    player.run(lambda: stop.requested)

A `LoopControl` paces the loop and may change something between two steps. The base class does nothing;
`play/controls.py` has the one through which the viewers' requests arrive.

The actor adopts new weights between two control steps, and only there. The loop calls the attached listeners after each
step and swap, in its own thread; they must not block.

Which episodes count: each environment plays a fixed quota, decided beforehand (25 episodes in 4 environments: 7, 6, 6,
6). Counting the first 25 episodes that end would favour short ones. An environment that has played its quota continues
to step, but its episodes no longer count.

If each version has a quota, it plays whole episodes alone until its quota is played. Then the newest version takes over
in new episodes; until there is a newer one, the loop waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from livegym.sim.base import Simulator
from livegym.tasks.base import Box, Discrete
from livegym.tasks.env import Env, Step
from livegym.weights.candidate import Label, SwapEvent

RESTING = 0.05  # s between two polls for the next version


class Actor(Protocol):
    """The interface of an object that chooses actions, one for each of R rows (`Env.num_rows`)."""

    def adopt(self) -> SwapEvent | None:
        """Adopt a newer version if one is ready."""

    def take_changes(self) -> list[tuple[list[int], Label]]:
        """Changes since the last call: (rows, version that acts in them from the next step on)."""

    def act(self, obs: Tensor) -> Tensor:
        """obs (R, width) -> actions."""

    def forget(self, rows: Tensor) -> None:
        """New episodes begin in rows (n,)."""


class Listener:
    """Base class of listeners. The loop's thread calls the methods between two steps; they do nothing by default."""

    def on_swap(self, event: SwapEvent, player: Player) -> None:
        """New weights act from the next step on, in some or all environments."""

    def on_change(self, env_ids: list[int], label: Label, player: Player) -> None:
        """Version `label` acts in these environments from the next step on."""

    def on_step(self, step: Step, player: Player) -> None:
        """One control step was made."""

    def on_restart(self, env_ids: list[int], player: Player) -> None:
        """A user restarts the episodes of these environments; called before that happens."""

    def on_rest(self, player: Player) -> None:
        """The loop is idle: it is paused, or ahead of its clock."""


class LoopControl:
    """Base class of loop controls, which may pace the loop or change something between two steps; does neither."""

    def obey(self, player: Player) -> None:
        """Carry out the waiting requests. Called before each step, and while the loop waits."""

    def due(self) -> bool:
        """Whether the next control step is due now."""
        return True

    def rest(self) -> None:
        """Wait a little; called if the next step is not due yet."""

    def before_step(self, sim: Simulator) -> None:
        """Called before each control step."""

    def push(self, sim: Simulator) -> None:
        """Called within each control step, before the physics; may add forces to bodies."""

    def after_step(self, control_dt: float) -> None:
        """Called after each control step; it lasted `control_dt` s of simulated time."""

    def forget(self, env_ids: list[int]) -> None:
        """New episodes begin in these environments."""


class ScriptedActor:
    """The actor of `agent=zero` and `agent=random`, which try a task without a trained policy."""

    def __init__(self, env: Env, kind: str, seed: int) -> None:
        self.kind = kind
        self._zero = env.zero_action()
        self._spec = env.task.action_spec
        self._rng = torch.Generator(self._zero.device).manual_seed(seed)

    def adopt(self) -> SwapEvent | None:
        """Return None: a scripted actor has no versions."""
        return None

    def take_changes(self) -> list[tuple[list[int], Label]]:
        """Return no changes: no other version ever acts."""
        return []

    def act(self, obs: Tensor) -> Tensor:
        """The zero action, or one drawn uniformly from the action space."""
        if self.kind != "random":
            return self._zero
        shape, device = self._zero.shape, self._zero.device
        uniform = torch.rand(shape, generator=self._rng, device=device)
        if isinstance(self._spec, Box):
            return 2 * uniform - 1
        sizes = self._spec.n if isinstance(self._spec, Discrete) else torch.tensor(self._spec.nvec, device=device)
        return (uniform * sizes).long()

    def forget(self, rows: Tensor) -> None:
        """Do nothing: a scripted actor has no state."""


def quotas(episodes: int, num_envs: int) -> list[int]:
    """Number of episodes that each environment plays: equal shares; the first ones play one more for the remainder."""
    share, rest = divmod(episodes, num_envs)
    return [share + (env_id < rest) for env_id in range(num_envs)]


class Player:
    """Runs one policy in one Env until every quota is played or a stop is requested."""

    def __init__(
        self,
        env: Env,
        actor: Actor,
        quota: list[int] | None = None,
        control: LoopControl | None = None,
        per_version: list[int] | None = None,
    ) -> None:
        """`quota`: episodes that each environment plays; None: plays until the stop. `control`: paces the loop.

        `per_version`: episodes that each environment plays with one version; None: versions take over as they arrive.
        """
        self.env = env
        self.actor = actor
        self._control = LoopControl() if control is None else control
        self._listeners: list[Listener] = []
        self._left = list(quota) if quota is not None else None
        self._per_version = per_version
        self._left_of_version = list(per_version) if per_version is not None else None
        self._meddled: set[int] = set()
        self._obs: dict[str, Tensor] = {}

    def attach(self, listener: Listener) -> None:
        """Add a listener to the loop."""
        self._listeners.append(listener)

    def counts(self, env_id: int) -> bool:
        """Whether an episode that ends now in this environment counts for the test."""
        return env_id not in self._meddled and all(left[env_id] > 0 for left in self._quotas)

    @property
    def done(self) -> bool:
        """Whether every quota is played."""
        return self._left is not None and not any(self._left)

    @property
    def _quotas(self) -> list[list[int]]:
        return [left for left in (self._left, self._left_of_version) if left is not None]

    @property
    def _version_is_done(self) -> bool:
        """Whether the acting version has played its own quota; False if it has none."""
        return self._left_of_version is not None and not any(self._left_of_version)

    @property
    def left(self) -> list[int] | None:
        """Remaining quota of each environment, in episodes; None if there is no quota."""
        return None if self._left is None else list(self._left)

    def run(self, ended: Callable[[], bool]) -> None:
        """Play new episodes until every quota is played, or until `ended` returns True between two control steps."""
        self._obs = self.env.reset()
        while not self.done and not ended():
            self._control.obey(self)
            if self._left_of_version is None:
                self._adopt()
            elif self._version_is_done and self._adopt():
                self._begin_version()
            if self._version_is_done:
                self._rest()
                time.sleep(RESTING)
            elif self._control.due():
                self._advance()
            else:
                self._rest()

    def restart(self, env_ids: Tensor) -> None:
        """Restart the episodes of environments (n,), sorted, between two steps. The interrupted ones do not count."""
        ids = env_ids.tolist()
        for listener in self._listeners:
            listener.on_restart(ids, self)
        self._obs = self.env.restart(env_ids, self._obs)
        self._begun(env_ids)

    def meddled(self, env_id: int) -> None:
        """Mark this environment's open episode as not counting, because a user has interfered in it."""
        self._meddled.add(env_id)

    def _begin_version(self) -> None:
        """Begin new episodes, because a version must not be credited with steps of the one before."""
        assert self._per_version is not None
        self._left_of_version = list(self._per_version)
        self.restart(torch.arange(self.env.num_envs))

    def _adopt(self) -> bool:
        """Let a waiting version take over; returns whether there was one."""
        event = self.actor.adopt()
        if event is not None:
            for listener in self._listeners:
                listener.on_swap(event, self)
        self._tell_changes()
        return event is not None

    def _rest(self) -> None:
        for listener in self._listeners:
            listener.on_rest(self)
        self._control.rest()

    def _advance(self) -> None:
        self._control.before_step(self.env.sim)
        action = self.actor.act(self._obs["policy"]).to(self.env.sim.device)
        step = self.env.step(action, self._control.push)
        for listener in self._listeners:
            listener.on_step(step, self)
        self._obs = step.obs
        if step.ended is not None:
            self._use_quota(step.ended.env_ids.tolist())
            self._begun(step.ended.env_ids)
        self._control.after_step(self.env.sim.control_dt)

    def _begun(self, env_ids: Tensor) -> None:
        self.actor.forget(self.env.rows_of(env_ids))
        self._meddled.difference_update(env_ids.tolist())
        self._control.forget(env_ids.tolist())
        self._tell_changes()

    def _tell_changes(self) -> None:
        for rows, label in self.actor.take_changes():
            env_ids = sorted({row // self.env.seats for row in rows})
            for listener in self._listeners:
                listener.on_change(env_ids, label, self)

    def _use_quota(self, env_ids: list[int]) -> None:
        for left in self._quotas:
            for env_id in env_ids:
                if env_id not in self._meddled:
                    left[env_id] = max(0, left[env_id] - 1)
