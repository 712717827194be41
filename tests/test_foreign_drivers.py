"""When foreign environments reset, and which observations then are whose: three conventions of IsaacGymEnvs' tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from livegym.compat.foreign.drivers import VecTaskDriver
from livegym.compat.foreign.loading import Loaded
from livegym.projects.checkout import YAML

N, LENGTH = 3, 4


class Counting:
    """N environments that count steps; the observation is (episode, step). Environment i ends after LENGTH + i."""

    num_envs = N
    clip_obs = 100.0

    def __init__(self) -> None:
        self.episode = torch.zeros(N)
        self.progress_buf = torch.zeros(N)
        self.reset_buf = torch.ones(N, dtype=torch.long)
        self.observe()

    def observe(self) -> None:
        self.obs_buf = torch.stack([self.episode, self.progress_buf], 1)

    def reset_idx(self, env_ids) -> None:
        self.episode[env_ids] += 1
        self.progress_buf[env_ids] = 0
        self.reset_buf[env_ids] = 0

    def ended(self):
        return (self.progress_buf >= LENGTH + torch.arange(N)).long()

    def answer(self):
        return {"obs": self.obs_buf}, torch.ones(N), self.reset_buf, {}


class NextStep(Counting):
    """As VecTask: reset at the beginning of the next step."""

    def step(self, action):
        self.progress_buf += 1
        ids = self.reset_buf.nonzero().squeeze(1)
        if len(ids):
            self.reset_idx(ids)
        self.observe()
        self.reset_buf[:] = self.ended()
        return self.answer()


class Inside(Counting):
    """As AnymalTerrain: reset in the step, before the observation."""

    def step(self, action):
        self.progress_buf += 1
        self.reset_buf[:] = over = self.ended()
        ids = over.nonzero().squeeze(1)
        if len(ids):
            self.reset_idx(ids)
            self.reset_buf[ids] = 1
        self.observe()
        return self.answer()

    def compute_observations(self) -> None:
        self.observe()


class ByCaller(Counting):
    """As HumanoidAMP: a step resets nothing; a reset computes the observation itself."""

    def step(self, action):
        self.progress_buf += 1
        self.observe()
        self.reset_buf[:] = self.ended()
        return self.answer()

    def reset_idx(self, env_ids) -> None:
        super().reset_idx(env_ids)
        self.observe()


def driver(kind):
    made = VecTaskDriver(Loaded(kind(), 1, 1.0, layout=YAML, files=Path()))
    made.step(torch.zeros(N, 1))
    return made


@pytest.mark.parametrize("kind", [NextStep, Inside, ByCaller])
def test_every_episode_has_its_own_length_and_its_first_and_last_observations(kind):
    stepped = driver(kind)
    stepped.reset(torch.arange(N))
    lengths, count = [[] for _ in range(N)], torch.zeros(N)
    for _ in range(40):
        before = {name: value.clone() for name, value in stepped.obs.items()}
        made = stepped.step(torch.zeros(N, 1))
        count += 1
        for i in made.ended.nonzero().squeeze(1).tolist():
            lengths[i].append(int(count[i]))
            count[i] = 0
            last, following = made.final_obs["policy"][i], made.obs["policy"][i]
            if kind is Inside:
                assert torch.equal(last, before["policy"][i])  # the one before
            else:
                assert last[1] == LENGTH + i
            assert following[1] == (0 if kind is not NextStep else LENGTH + i)
    extra = kind is NextStep  # the throw-away
    for i in range(N):
        assert set(lengths[i][1:]) == {LENGTH + i + extra}


@pytest.mark.parametrize("kind", [NextStep, Inside, ByCaller])
def test_a_restart_begins_a_new_episode_in_these_environments_only(kind):
    stepped = driver(kind)
    for _ in range(2):
        stepped.step(torch.zeros(N, 1))
    before = stepped.env.episode.clone()
    stepped.reset(torch.tensor([1]))
    stepped.step(torch.zeros(N, 1))
    assert (stepped.env.episode - before).tolist() == [0, 1, 0]
    assert stepped.env.progress_buf[1] <= 1
