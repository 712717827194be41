"""Snapshot pool: older versions act in some of the environments, and the newest in the others.

It serves comparisons, or provides opponents. The last `size` environments belong to the pool. When an episode begins in
one of them, a version is drawn uniformly from the history, excluding the newest. If the history has no other version,
the newest acts there too. Each version takes one forward pass a step, however many environments it acts in.

A comparison uses all environments: one kept version acts in the even ones, another in the odd ones.
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
    """Snapshots that act in chosen environments. Owned by the control loop."""

    def __init__(
        self,
        size: int,
        num_envs: int,
        make_policy: Callable[[], Policy],
        history: SnapshotHistory,
        seed: int,
        note: Callable[[list[int], Label], None],
    ) -> None:
        """`note(env_ids, label)` is called if another version acts in these environments from the next step on.

        Raises UserError if no environment would be left for the newest version, or if the history is too short.
        """
        if size >= num_envs and size:
            raise UserError(
                f"poolEnvs={size}: must be less than numEnvs={num_envs}; otherwise the newest version acts nowhere."
            )
        if size and history.size < 2:
            raise UserError(f"poolEnvs={size}: needs historySize=2 or more, but historySize={history.size}.")
        self._history = history
        self._make_policy = make_policy
        self._note = note
        self._members = range(num_envs - size, num_envs)
        slots = size + 1 if size else 0  # one more than environments, for the moment in which one changes its version
        self._free = [ModelSlot(make_policy()) for _ in range(slots)]
        self._slots: dict[Label, ModelSlot] = {}  # version -> its slot, for the versions that act in the pool
        self._labels: dict[int, Label] = {}  # environment -> the older version that acts there
        self._drawing = set(self._members)
        self._rng = torch.Generator().manual_seed(seed)
        self._num_envs = num_envs
        self._pair: tuple[ModelSlot, ...] = ()  # slots of a comparison: (even, odd) environments; empty: no comparison

    @property
    def labels(self) -> dict[int, Label]:
        """Environment -> the older version that acts in it now."""
        return dict(self._labels)

    def without(self, env_ids: Iterable[int]) -> list[int]:
        """The given environments in which the newest version acts."""
        return [env_id for env_id in env_ids if env_id not in self._labels]

    def cast(self, env_id: int, label: Label) -> None:
        """Assign version `label` to this environment, from the next step on and until `release`.

        Raises UserError if the environment does not belong to the pool, or if the version is not kept.
        """
        kept = self.check(env_id, label)
        self._drawing.discard(env_id)
        self._put(env_id, kept, fresh=False)

    def check(self, env_id: int, label: Label) -> PolicySnapshot:
        """The snapshot that `cast` would assign; raises the same errors. May be called from any thread."""
        if env_id not in self._members:
            pool = ", ".join(map(str, self._members)) or "none (poolEnvs=0)"
            raise UserError(f"environment {env_id} does not belong to the pool. The pool's environments: {pool}")
        return self.kept(label)

    def kept(self, label: Label) -> PolicySnapshot:
        """The snapshot of this version. Raises UserError if it is not kept. May be called from any thread."""
        kept = self._history.get(label)
        if kept is None:
            labels = ", ".join(map(str, self._history.labels)) or "none"
            raise UserError(f"version {label} is not kept. Kept: {labels}")
        return kept

    def release(self, env_id: int) -> None:
        """Undo `cast`: versions are drawn for this environment again, from its next episode on."""
        if env_id in self._members:
            self._drawing.add(env_id)

    def compare(self, first: Label, second: Label) -> None:
        """Let `first` act in even and `second` in odd environments, from the next step on and until `end_comparison`.

        Raises UserError if one of them is not kept, or if they are the same.
        """
        chosen = self.pair(first, second)
        for env_id in self._members:
            self._leave(env_id)
        self._pair = self._pair or (ModelSlot(self._make_policy()), ModelSlot(self._make_policy()))
        for side, (slot, kept) in enumerate(zip(self._pair, chosen, strict=True)):
            slot.take(kept.candidate)
            env_ids = list(range(side, self._num_envs, 2))
            slot.forget(torch.tensor(env_ids))
            self._labels |= dict.fromkeys(env_ids, kept.label)
            self._note(env_ids, kept.label)

    def pair(self, first: Label, second: Label) -> tuple[PolicySnapshot, PolicySnapshot]:
        """The snapshots that `compare` would use; raises the same errors. May be called from any thread."""
        if first == second:
            raise UserError(f"version {first} cannot be compared with itself. Allowed: two different versions")
        return self.kept(first), self.kept(second)

    def end_comparison(self, newest: Label) -> None:
        """Let the newest version act everywhere again; the pool's environments draw with their next episodes."""
        if self._pair:
            self._pair = ()
            self._labels.clear()
            self._note(list(range(self._num_envs)), newest)

    def _put(self, env_id: int, kept: PolicySnapshot, fresh: bool) -> None:
        """Let a version act in an environment. `fresh`: a new episode begins; otherwise its recurrent state stays."""
        before = self._slots.get(self._labels.get(env_id, kept.label))
        slot = self._slots.get(kept.label)
        if slot is None:
            slot = self._free.pop() if self._free else ModelSlot(self._make_policy())
            slot.take(kept.candidate)
            self._slots[kept.label] = slot
        env_ids = torch.tensor([env_id])
        if fresh or before is None:
            slot.forget(env_ids)
        elif before is not slot:
            slot.take_memory(before, env_ids)
        if self._labels.get(env_id) != kept.label:
            self._leave(env_id)
        self._labels[env_id] = kept.label
        self._note([env_id], kept.label)

    def _leave(self, env_id: int) -> bool:
        """Remove the older version that acts in this environment; returns whether there was one."""
        label = self._labels.pop(env_id, None)
        if label is not None and label not in self._labels.values():
            self._free.append(self._slots.pop(label))
        return label is not None

    def forget(self, env_ids: Tensor, newest: Label) -> None:
        """Episodes begin in environments (n,): versions are drawn for those that belong to the pool."""
        if self._pair:
            for slot in self._pair:
                slot.forget(env_ids)
            return
        for env_id in env_ids.tolist():
            if env_id in self._drawing:
                self._draw(env_id, newest)
            elif env_id in self._labels:
                self._slots[self._labels[env_id]].forget(torch.tensor([env_id]))

    def _draw(self, env_id: int, newest: Label) -> None:
        older = [kept for kept in self._history if kept.label != newest]
        if older:
            self._put(env_id, older[int(torch.randint(len(older), (1,), generator=self._rng))], fresh=True)
        elif self._leave(env_id):
            self._note([env_id], newest)

    def act(self, obs: Tensor, action: Tensor, choose: Callable[[Distribution], Tensor]) -> Tensor:
        """Replace the rows of `action` (N, ...) in which an older version acts by that version's choice."""
        if not self._labels:
            return action
        action = action.clone()
        if self._pair:
            for side, slot in enumerate(self._pair):
                action[side::2] = choose(slot.think(obs))[side::2]
            return action
        for label, slot in self._slots.items():
            env_ids = [env_id for env_id, acting in self._labels.items() if acting == label]
            action[env_ids] = choose(slot.think(obs))[env_ids]
        return action
