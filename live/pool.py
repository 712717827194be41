"""Older versions that act in some of the environments, beside the newest in the others: for comparison, or to play
against.

The last `size` environments belong to the pool. At each start of an episode there, one of the versions that the
history keeps is drawn, each as likely as the others, but not the newest; if there is no other, the newest acts.

A comparison takes all environments: one kept version acts in the even ones, another in the odd ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from livegym.live.model_slot import ModelSlot, PolicySnapshot, SnapshotHistory
from livegym.rl.distribution import Distribution
from livegym.rl.policy import Policy
from livegym.utils.errors import UserError
from livegym.weights.candidate import Label


class Pool:
    """Snapshots in chosen environments. Belongs to the control loop."""

    def __init__(
        self,
        size: int,
        num_envs: int,
        make_policy: Callable[[], Policy],
        history: SnapshotHistory,
        seed: int,
        note: Callable[[list[int], Label], None],
    ) -> None:
        """`note` is told the environments in which another version acts from the next step on, and which.

        Raises UserError if no environment would be left for the newest version.
        """
        if size >= num_envs and size:
            raise UserError(f"poolEnvs={size}: must be less than numEnvs={num_envs}, or the newest acts nowhere.")
        if size and history.size < 2:
            raise UserError(f"poolEnvs={size}: needs historySize of 2 or more, which is {history.size}.")
        self._history = history
        self._make_policy = make_policy
        self._note = note
        self._slots = {env_id: ModelSlot(make_policy()) for env_id in range(num_envs - size, num_envs)}
        self._labels: dict[int, Label] = {}  # environment -> the older version that acts there
        self._drawing = set(self._slots)
        self._rng = torch.Generator().manual_seed(seed)
        self._num_envs = num_envs
        self._pair: tuple[ModelSlot, ...] = ()  # of a comparison: even environments, odd environments

    @property
    def labels(self) -> dict[int, Label]:
        """Environment -> the older version that acts there now."""
        return dict(self._labels)

    def without(self, env_ids: Iterable[int]) -> list[int]:
        """Those of the environments in which the newest version acts."""
        return [env_id for env_id in env_ids if env_id not in self._labels]

    def cast(self, env_id: int, label: Label) -> None:
        """From the next step on, version `label` acts in this environment, until `release`.

        Raises UserError if the environment is not the pool's, or the version is not kept.
        """
        kept = self.check(env_id, label)
        self._drawing.discard(env_id)
        self._put(env_id, kept)

    def check(self, env_id: int, label: Label) -> PolicySnapshot:
        """What `cast` would put there; it raises what that raises. May be called from any thread."""
        if env_id not in self._slots:
            raise UserError(f"environment {env_id} is not the pool's: {', '.join(map(str, self._slots)) or 'none'} are")
        return self.kept(label)

    def kept(self, label: Label) -> PolicySnapshot:
        """This version of the history; may be asked for from any thread. Raises UserError if it is not kept."""
        kept = self._history.get(label)
        if kept is None:
            labels = ", ".join(map(str, self._history.labels)) or "none"
            raise UserError(f"version {label} is not kept. Kept: {labels}")
        return kept

    def release(self, env_id: int) -> None:
        """From the next episode on, versions are drawn for this environment again."""
        if env_id in self._slots:
            self._drawing.add(env_id)

    def compare(self, first: Label, second: Label) -> None:
        """From the next step on, `first` acts in even and `second` in odd environments, until `end_comparison`.

        Raises UserError if one of them is not kept.
        """
        chosen = (self.kept(first), self.kept(second))
        self._pair = self._pair or (ModelSlot(self._make_policy()), ModelSlot(self._make_policy()))
        for side, (slot, kept) in enumerate(zip(self._pair, chosen, strict=True)):
            slot.take(kept.candidate)
            env_ids = list(range(side, self._num_envs, 2))
            slot.forget(torch.tensor(env_ids))
            self._labels |= dict.fromkeys(env_ids, kept.label)
            self._note(env_ids, kept.label)

    def end_comparison(self, newest: Label) -> None:
        """The newest acts everywhere again; what the pool's environments play is drawn with their next episodes."""
        if self._pair:
            self._pair = ()
            self._labels.clear()
            self._note(list(range(self._num_envs)), newest)

    def _put(self, env_id: int, kept: PolicySnapshot) -> None:
        self._slots[env_id].take(kept.candidate)
        self._labels[env_id] = kept.label
        self._note([env_id], kept.label)

    def forget(self, env_ids: Tensor, newest: Label) -> None:
        """Episodes of environments (n,) begin anew: who acts in those of the pool is drawn."""
        if self._pair:
            for slot in self._pair:
                slot.forget(env_ids)
            return
        for env_id in env_ids.tolist():
            if env_id in self._slots:
                self._slots[env_id].forget(env_ids)
            if env_id in self._drawing:
                self._draw(env_id, newest)

    def _draw(self, env_id: int, newest: Label) -> None:
        older = [kept for kept in self._history if kept.label != newest]
        if older:
            self._put(env_id, older[int(torch.randint(len(older), (1,), generator=self._rng))])
        elif self._labels.pop(env_id, None) is not None:
            self._note([env_id], newest)

    def act(self, obs: Tensor, action: Tensor, choose: Callable[[Distribution], Tensor]) -> Tensor:
        """The actions (N, ...) with the rows of the pool's environments replaced by their own versions' choices."""
        if not self._labels:
            return action
        action = action.clone()
        if self._pair:
            for side, slot in enumerate(self._pair):
                action[side::2] = choose(slot.think(obs))[side::2]
            return action
        for env_id in self._labels:
            action[env_id] = choose(self._slots[env_id].think(obs))[env_id]
        return action
