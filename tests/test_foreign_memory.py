"""What a foreign environment remembers over a resume: what a run changed, and not the constants of its files."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from livegym.compat.foreign.memory import Memory
from tests.isaac_toys import copied, fresh_modules, made, needs_isaacgym, project

N = 3


class Remembers:
    """An environment's attributes: state, constants, and what was drawn for each environment."""

    def __init__(self, limit: int = 40, seed: int = 0) -> None:
        self.rows = torch.arange(6.0)
        self.first = self.rows[:2]  # a view, and no environments
        self.shared = torch.zeros(N, 1).expand(N, 4)
        self.sums = {"a": torch.ones(N), "text": "b"}
        self.count = 3
        self.limit = limit
        self.gains = torch.full((N, 2), float(limit))
        self.friction = torch.rand(N, generator=torch.Generator().manual_seed(seed))
        self.other = torch.zeros(2)
        self.later = None


def ran() -> tuple[Remembers, Memory]:
    env = Remembers()
    memory = Memory(env, N)
    env.rows += 1
    env.sums["a"] += 1
    env.count = 7
    env.later = torch.ones(N)
    env.made = 2
    return env, memory


def test_it_is_what_a_run_changed_and_what_was_drawn():
    assert sorted(ran()[1].save()) == ["count", "friction", "later", "made", "rows", "sums/a"]


def test_restoring_keeps_memory_and_the_constants_of_now():
    _, memory = ran()
    target = Remembers(limit=50, seed=9)  # its file has another limit
    rows, drawn = target.rows, memory.save()["friction"]
    restored = Memory(target, N).restore(memory.save())
    assert restored == ["count", "friction", "later", "made", "rows", "sums/a"]
    assert rows.tolist() == (np.arange(6) + 1).tolist()  # the same memory
    assert target.sums["a"].tolist() == [2, 2, 2]
    assert (target.count, target.made, target.limit) == (7, 2, 50)
    assert target.later.tolist() == [1, 1, 1]
    assert target.gains.unique().tolist() == [50]
    assert torch.equal(target.friction, drawn)


def test_what_was_as_after_the_constructor_is_so_again():
    env = Remembers()
    memory = Memory(env, N)
    state = memory.save()
    env.count, env.shared = 9, torch.ones(N, 4)
    env.sums["a"] += 5
    memory.restore(state)
    assert env.count == 3
    assert env.sums["a"].tolist() == [1, 1, 1]
    assert not env.shared.any()


@pytest.mark.parametrize(("rows", "sizes"), [(2, ()), (4, ()), (8, {8}), (16, {8})])
def test_limits_of_joints_are_those_of_now_whatever_the_number_of_environments(rows, sizes):
    def limits(scale: float) -> SimpleNamespace:
        return SimpleNamespace(limits=scale * torch.arange(8.0), table=scale * torch.arange(32.0).reshape(16, 2)[:8])

    saved = Memory(limits(1.0), rows, sizes).save()
    target = limits(2.0)
    assert Memory(target, rows, sizes).restore(saved) == []
    assert torch.equal(target.limits, 2.0 * torch.arange(8.0))


def test_views_of_the_simulations_tensors_are_restored_whatever_their_length():
    def actors(place: float) -> tuple[SimpleNamespace, dict[str, torch.Tensor]]:
        root = place + torch.arange(2.0 * N * 13).reshape(2 * N, 13)
        return SimpleNamespace(root=root, poses=root[:, :7], other=root.clone()), {"root": root}

    env, buffers = actors(0.0)
    saved = Memory(env, N, {N}, buffers).save()
    target, others = actors(5.0)
    assert Memory(target, N, {N}, others).restore(saved) == ["poses", "root"]
    assert torch.equal(target.root, env.root)


def test_what_has_no_place_any_more_is_not_called_restored():
    target, state = Remembers(), {"count": 5, "gone.count": 3, "count/a": torch.ones(N), "sums/b": torch.ones(N)}
    assert Memory(target, N).restore(state) == ["count", "sums/b"]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"rows": torch.zeros(3)}, r"rows is a tensor \(3,\) in the saved state, but here it is a tensor \(6,\)"),
        ({"count": torch.zeros(3)}, r"count is a tensor \(3,\) in the saved state, but here it is a number"),
    ],
)
def test_another_kind_or_shape_changes_nothing(state, message):
    env, memory = ran()
    with pytest.raises(ValueError, match=message):
        memory.restore({"made": 5, **state})
    assert (env.made, env.count) == (2, 7)


@needs_isaacgym
def test_a_limit_that_was_edited_is_the_new_one_after_a_resume(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    folder = copied(tmp_path)
    with fresh_modules("toys"), project(folder):
        env = made(num_envs=4)
        for _ in range(3):
            env.step(env.zero_action())
        state = env.state_dict()
    state["foreign"]["pole.angle"] = torch.ones(4)
    yaml = folder / "toys" / "cfg" / "task" / "Swing.yaml"
    yaml.write_text(yaml.read_text().replace("episodeLength: 40", "episodeLength: 30"))
    with fresh_modules("toys"), project(folder):
        env = made(num_envs=4)
        env.load_state_dict(state)
        env.load_state_dict(state)
        foreign = env._loaded.env
    assert foreign.max_episode_length == 30
    assert foreign.progress_buf.tolist() == [3] * 4
    said = [line for line in caplog.messages if line.startswith("restored of toys-Swing")]
    assert len(said) == 1
    assert "progress_buf" in said[0]
    assert "max_episode_length" not in said[0]
    assert "pole.angle" not in said[0]
    assert [line.partition(". ")[0] for line in caplog.messages if line.startswith("not restored")] == [
        "not restored of toys-Swing: pole.angle"
    ]
