"""The hands of those who watch: pause, step, speed, restart, push, versions; and the board that they read."""

from __future__ import annotations

import itertools
import threading
import time
from types import SimpleNamespace

import pytest
import torch

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.play.board import POINTS, Board, BoardWriter
from livegym.play.control_requests import (
    Compare,
    EndCompare,
    Follow,
    Pause,
    Pin,
    Push,
    Record,
    Restart,
    RollBack,
    Speed,
    StepOnce,
    TakeOver,
)
from livegym.play.controls import QUEUED, Controls
from livegym.play.play import Listener, Player, ScriptedActor, quotas
from livegym.play.report import Reporter
from livegym.play.results import Results
from livegym.play.world import World
from livegym.schema import PhysicsConfig, SimConfig
from livegym.sim.base import APPLIED
from livegym.tasks.build import make_env
from livegym.utils.files import strict_json
from livegym.weights.candidate import SwapEvent
from tests.dummy import CountingParams, counting_env
from tests.test_live import candidate, live_of


class Script(Listener):
    """Asks for something after a number of steps, and counts what happens."""

    def __init__(self, controls: Controls, at: dict[int, list], rests: int = 20) -> None:
        self.controls, self.at, self.rests = controls, at, rests
        self.steps = self.rested = 0
        self.restarted: list[list[int]] = []
        self.actions: list[list[float]] = []

    def on_step(self, step, player):
        self.steps += 1
        self.actions.append(player.env.sim.ctrl.flatten().tolist())
        for request in self.at.get(self.steps, []):
            assert self.controls.ask(request)

    def on_rest(self, player):
        self.rested += 1

    def on_restart(self, env_ids, player):
        self.restarted.append(env_ids)


def play(env, at, steps=10, actor=None, controls=None, quota=None, listeners=()):
    """Plays until `steps` steps are made, or the loop has rested twenty times."""
    controls = controls or Controls(speed=None)
    controls.begin()
    script = Script(controls, at)
    player = Player(env, actor or ScriptedActor(env, "zero", 0), quota, controls)
    for listener in (script, *listeners):
        player.attach(listener)
    player.run(lambda: script.steps >= steps or script.rested >= script.rests)
    return script, player, controls


def test_a_pause_takes_effect_between_two_steps_and_single_steps_are_exact():
    env = counting_env(num_envs=2, length=50)
    script, _, controls = play(env, {3: [Pause(True), StepOnce(), StepOnce()]})
    assert (script.steps, script.rested) == (5, 20)
    assert controls.paused
    assert env.sim.qpos[:, 1].tolist() == [5.0, 5.0]


def test_a_single_step_pauses_a_loop_that_runs():
    script, _, controls = play(counting_env(num_envs=1, length=50), {3: [StepOnce()]})
    assert (script.steps, controls.paused) == (4, True)


def test_resuming_after_a_pause_does_not_catch_up():
    controls = Controls(speed=1.0)
    controls.pause(True)
    controls._due_at -= 100.0  # as if it had stood for a long time
    controls.pause(False)
    assert controls.due()
    controls.after_step(1000.0)
    assert not controls.due()


def test_a_loop_that_is_late_gives_up_what_it_missed():
    controls = Controls(speed=1.0)
    controls._due_at -= 100.0
    controls.after_step(0.02)
    controls.after_step(1000.0)
    assert not controls.due()


@pytest.mark.parametrize(("factor", "seconds"), [(1.0, 100.0), (0.0625, 1600.0), (8.0, 12.5)])
def test_the_next_step_is_due_after_the_control_period_over_the_speed(factor, seconds):
    controls = Controls(speed=factor)
    controls._due_at = start = time.monotonic()
    controls.after_step(100.0)
    assert controls._due_at - start == pytest.approx(seconds)


def test_a_request_wakes_a_loop_that_rests():
    """At 1/16 of real time the next step may be a second away; a pause must not wait for it."""
    env = counting_env(num_envs=1, length=50)
    controls = Controls(speed=1 / 16)
    controls.begin()
    controls.after_step(1000.0)
    threading.Timer(0.01, controls.ask, [Speed(None)]).start()
    player = Player(env, ScriptedActor(env, "zero", 0), quotas(1, 1), controls)
    player.run(lambda: False)
    assert player.done


def test_restarting_one_environment_leaves_the_others_and_its_episode_does_not_count(tmp_path):
    env = counting_env(num_envs=2, length=6)
    results = Results({"task": "Counting"})
    reporter = Reporter(results, tmp_path / "r.json", endless=False)
    script, _, _ = play(env, {2: [Restart(1)]}, steps=8, listeners=[reporter.begin(env, None)])
    assert script.restarted == [[1]]
    assert [(e["env"], e["length"], e["return"]) for e in results.episodes] == [(0, 6, 6.0), (1, 6, 6.0)]
    assert env.sim.qpos[:, 1].tolist() == [2.0, 0.0]


def test_the_policy_sees_the_first_observation_of_a_restarted_episode():
    env = counting_env(num_envs=2, length=50)
    observed = []

    class Looks(ScriptedActor):
        def act(self, obs):
            observed.append(obs[:, 1].tolist())
            return super().act(obs)

    play(env, {2: [Restart(None)]}, steps=3, actor=Looks(env, "zero", 0))
    assert observed == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Restart(2), "environment 2 does not exist; allowed: 0 to 1"),
        (Restart(-1), "environment -1"),
        (Record(True), "nothing can be recorded: this test has no recorder"),
        (Speed(100.0), "playSpeed=100: allowed: 0.0625 to 8"),
        (Speed(float("nan")), "playSpeed=nan"),
        (Pin(), "there are no versions"),
        (RollBack(3), "there are no versions"),
        (Push(5, "torso", (1, 0, 0), 1.0), "environment 5 does not exist; allowed: 0 to 1"),
        (Push(0, "torso", (float("inf"), 0, 0), 1.0), "allowed: finite numbers from -100000 to 100000"),
        (Push(0, "torso", (1, 0, 0), 1e9), "for 0 to 60"),
    ],
)
def test_what_cannot_be_done_is_reported_and_the_loop_continues(request_, message):
    script, _, controls = play(counting_env(num_envs=2, length=50), {1: [request_]}, steps=4)
    assert script.steps == 4
    assert message in controls.notices[-1][1]


def test_requests_beyond_any_person_are_refused_and_not_kept():
    controls = Controls()
    asked = [controls.ask(StepOnce()) for _ in range(QUEUED + 5)]
    assert asked == [True] * QUEUED + [False] * 5


def test_versions_are_pinned_rolled_back_and_followed_by_request():
    live = live_of(candidate(1, bias=0.25), history=4)
    env = counting_env(num_envs=2, length=50)
    live.prepare(candidate(2, bias=0.5))
    script, _, _ = play(env, {2: [RollBack(None)], 4: [Follow()], 5: [Pin()]}, steps=3, actor=live)
    assert [a[0] for a in script.actions] == [0.5, 0.5, 0.25]
    assert live.pinned
    live.prepare(candidate(3, bias=0.75))
    script, _, _ = play(env, {1: [Follow()]}, steps=3, actor=live)
    assert [a[0] for a in script.actions] == [0.25, 0.75, 0.75]


def test_the_way_of_taking_over_can_be_changed_while_it_runs():
    live = live_of(candidate(1, bias=0.0), history=2)
    env = counting_env(num_envs=2, length=50)
    live.prepare(candidate(2, bias=1.0))
    live.pin()
    dt = env.sim.control_dt
    script, _, controls = play(env, {1: [TakeOver("blend", 4 * dt), Follow()]}, steps=7, actor=live)
    assert [round(a[0], 6) for a in script.actions] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    for wrong in (TakeOver("jump", 1.0), TakeOver("blend", 0.0)):
        play(env, {1: [wrong]}, steps=3, actor=live, controls=controls)
    assert "swap=jump: unknown" in controls.notices[-2][1]
    assert "blendSeconds=0.0" in controls.notices[-1][1]


def test_two_versions_act_side_by_side_in_neighbouring_environments(tmp_path):
    live = live_of(candidate(1, bias=0.25), num_envs=4, history=4)
    live.prepare(candidate(2, bias=0.5))
    env = counting_env(num_envs=4, length=3)
    results = Results({"task": "Counting"})
    reporter = Reporter(results, tmp_path / "r.json", endless=False)
    at = {1: [Compare(1, 2)], 8: [EndCompare()]}
    script, _, controls = play(env, at, steps=9, actor=live, listeners=[reporter.begin(env, live)])
    assert script.actions[0] == [0.5] * 4
    assert script.actions[1:8] == [[0.25, 0.5, 0.25, 0.5]] * 7
    assert script.actions[8] == [0.5] * 4
    assert script.restarted == [[0, 1, 2, 3]] * 2
    assert {label: m.count for label, m in results.by_version.items()} == {1: 4, 2: 4}
    assert [e["versions"] for e in results.episodes][:4] == [[1], [2], [1], [2]]
    assert not controls.comparing


def test_a_newer_version_during_a_comparison_acts_after_it():
    live = live_of(candidate(1, bias=0.25), history=4)
    live.prepare(candidate(2, bias=0.5))
    env = counting_env(num_envs=2, length=50)

    class Publishes(Listener):
        steps = 0

        def on_step(self, step, player):
            self.steps += 1
            if self.steps == 3:
                live.prepare(candidate(3, bias=1.0))

    at = {1: [Compare(1, 2)], 5: [EndCompare()]}
    script, _, _ = play(env, at, steps=6, actor=live, listeners=[Publishes()])
    assert script.actions == [[0.5, 0.5], *[[0.25, 0.5]] * 4, [1.0, 1.0]]


def test_requests_that_come_together_are_all_obeyed_before_the_next_step():
    """A comparison began two steps after the episodes that it had begun anew: they were another version's at first."""
    live = live_of(candidate(1, bias=0.25), history=4)
    live.prepare(candidate(2, bias=0.5))
    env = counting_env(num_envs=2, length=50)
    script, _, _ = play(env, {1: [Pin(), TakeOver("reset", 1.0), Compare(1, 2)]}, steps=3, actor=live)
    assert script.actions == [[0.5, 0.5], [0.25, 0.5], [0.25, 0.5]]


@pytest.mark.parametrize(("first", "second"), [(7, 2), (2, 7)])
def test_a_comparison_with_a_version_that_is_not_kept_is_refused_whole(first, second):
    live = live_of(candidate(1), history=4)
    live.prepare(candidate(2, bias=0.5))
    env = counting_env(num_envs=2, length=50)
    script, _, controls = play(env, {2: [Compare(first, second)]}, steps=4, actor=live)
    assert "version 7 is not kept. Kept: 1, 2" in controls.notices[-1][1]
    assert script.restarted == []


def test_a_comparison_needs_two_environments():
    live = live_of(candidate(1), num_envs=1, history=4)
    _, _, controls = play(counting_env(num_envs=1, length=50), {1: [Compare(1, 1)]}, steps=3, actor=live)
    assert "numEnvs=2" in controls.notices[-1][1]


def ant(num_envs=2):
    config = to_typed(compose(["task=Ant"]))
    return make_env(config.task, SimConfig(engine="mujoco"), PhysicsConfig(), num_envs, 0, (APPLIED,))


def test_a_push_moves_a_body_for_its_time_and_the_episode_does_not_count():
    """10 N up for two steps on one of two equal ants; both begin in the same state."""
    env = ant()
    state = env.state_dict(torch.tensor([0]))
    env.load_state_dict(state, torch.tensor([1]))
    applied = []

    class GateInput(Listener):
        def on_step(self, step, player):
            applied.append(env.sim.xfrc_applied[1, :, 2].sum().item())
            self.counts = [player.counts(0), player.counts(1)]

    observe = GateInput()
    push = Push(1, "torso", (0.0, 0.0, 10.0), 2 * env.sim.control_dt)
    play(env, {2: [push]}, steps=6, listeners=[observe])
    assert applied == [0.0, 0.0, 10.0, 10.0, 0.0, 0.0]
    assert observe.counts == [True, False]
    assert env.sim.qpos[1, 2] > env.sim.qpos[0, 2] + 0.001
    env.sim.close()


def test_a_push_on_a_body_that_is_not_there_names_near_ones():
    env = ant()
    _, _, controls = play(env, {1: [Push(0, "torsoo", (1.0, 0.0, 0.0), 1.0)]}, steps=3)
    assert "torsoo" in controls.notices[-1][1]
    assert "torso" in controls.notices[-1][1].replace("torsoo", "")
    env.sim.close()


def test_an_episode_that_was_pushed_does_not_use_up_the_quota():
    env = ant(1)
    env.max_length = 3
    push = Push(0, "torso", (0.0, 0.0, 1.0), 0.05)
    _, player, _ = play(env, {1: [push]}, steps=4, quota=[2])
    assert player.left == [2]
    env.sim.close()


def board_of(env, live, at, steps=10):
    board, controls = Board(), Controls(speed=None)
    results = Results({"task": "Counting"})
    reporter = Reporter(results, None, endless=False)
    actor = live or ScriptedActor(env, "zero", 0)
    writer = BoardWriter(board, World(env, actor, None), results, controls)
    play(env, at, steps, actor, controls, listeners=[reporter.begin(env, live), writer])
    writer._shown_at = 0.0
    writer.on_rest(SimpleNamespace(left=None))
    return board


def test_the_board_shows_versions_episodes_and_swaps():
    live = live_of(candidate(1, bias=0.25, made=1000.0), history=4)
    live.prepare(candidate(2, bias=0.5, made=1010.0))
    env = counting_env(num_envs=2, length=3)
    board = board_of(env, live, {4: [RollBack(1)], 5: [Pause(False)]})
    state = board.state
    assert (state["phase"], state["task"], state["num_envs"]) == ("playing", "Counting", 2)
    policy = state["policy"]
    assert (policy["label"], policy["pinned"], policy["made"], policy["source"]) == (1, True, 1000.0, "history")
    assert [(h["label"], h["made"]) for h in policy["history"]] == [(1, 1000.0), (2, 1010.0)]
    assert policy["history"][1]["episodes"] == 2
    assert not state["recording"]
    points = board.since(0)
    assert [p[2]["label"] for p in points if p[1] == "swap"] == [2, 1]
    episodes = [p[2] for p in points if p[1] == "episode"]
    assert [(e["env"], e["length"], e["return"]) for e in episodes[:2]] == [(0, 3, 3.0), (1, 3, 3.0)]
    assert episodes[0]["label"] == 2
    assert board.since(board.seq) == []
    assert strict_json(state)


def test_the_board_names_the_version_that_plays_an_episode_not_the_newest():
    """Under swap=reset the open episodes are still the old version's."""
    live = live_of(candidate(1), history=4, how="reset")
    env, controls, results = counting_env(num_envs=2, length=3), Controls(speed=None), Results({"task": "Counting"})
    board = Board()
    writer = BoardWriter(board, World(env, live, None), results, controls)

    class Publishes(Listener):
        def on_step(self, step, player):
            if player.env.episode_length[0] == 1 and live.newest.version == 1:
                live.prepare(candidate(2))

    play(env, {}, steps=7, actor=live, controls=controls, listeners=[writer, Publishes()])
    labels = [v["label"] for _, kind, v in board.since(0) if kind == "episode"]
    assert labels == [1, 1, 2, 2]


def test_the_board_tells_of_a_refused_version_once():
    env, results = counting_env(num_envs=2, length=50), Results({"task": "Counting"})
    board, controls = Board(), Controls(speed=None)
    writer = BoardWriter(board, World(env, ScriptedActor(env, "zero", 0), None), results, controls)
    results.note(SwapEvent.of(candidate(7), accepted=False, reason="of another shape"))
    play(env, {}, steps=3, controls=controls, listeners=[writer])
    results.note(SwapEvent.of(candidate(8), accepted=False, reason="not finite"))
    play(env, {}, steps=3, controls=controls, listeners=[writer])
    refusals = [
        (values["version"], values["label"], values["reason"]) for _, kind, values in board.since(0) if kind == "swap"
    ]
    assert refusals == [(7, None, "of another shape"), (8, None, "not finite")]


def test_the_plots_span_the_whole_test_and_are_dense_where_it_is_recent():
    board, seconds = Board(), 3 * 3600
    for second in range(seconds):
        board.add("swap", {"t": 1e9 + second})
    points = board.since(0)
    times = [values["t"] - 1e9 for _, _, values in points]
    assert len(points) == POINTS
    assert [seq - 1 for seq, _, _ in points] == times  # in order, each with its own number
    assert times[0] == 0
    assert times[-60:] == list(range(seconds - 60, seconds))
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert max(gaps) < 0.05 * seconds


def test_the_board_of_a_scripted_agent_has_no_policy():
    board = board_of(counting_env(num_envs=2, length=3), None, {})
    assert (board.state["policy"], board.state["agent"]) == (None, "zero")
    assert strict_json(board.state)


def test_the_board_keeps_only_the_last_points():
    env = counting_env(num_envs=2, length=1, params=CountingParams())
    board = board_of(env, None, {}, steps=POINTS)
    episodes = [p for p in board.since(0) if p[1] == "episode"]
    assert len(episodes) == POINTS
    assert episodes[-1][0] == 2 * POINTS + sum(p[1] == "terms" for p in board.since(0))


def test_a_test_that_nobody_can_meddle_with_never_rests():
    env = counting_env(num_envs=1, length=3)
    player = Player(env, ScriptedActor(env, "zero", 0), [2])
    rests = Script(Controls(), {})
    player.attach(rests)
    player.run(lambda: False)
    assert (rests.steps, rests.rested) == (6, 0)
