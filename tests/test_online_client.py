"""The client package against a real server, which is stopped, started, slow and full; and the examples as processes."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from examples.gym_client import CartPole
from livegym.tasks.build import make_env
from livegym_client import Client, Decision, Denied, Refused, Runner, Unreachable
from livegym_client import client as client_module
from livegym_client.wire import MAX_BYTES, Address, batches, item_of
from tests.online_fixtures import serving
from tests.patience import PATIENCE_S, until
from tests.web_fixtures import TOKEN

pytest_plugins = ["online_fixtures"]

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(client_module, "LONGEST_PAUSE", 0.2)


def test_it_decides_rewards_and_describes(serve):
    served = serve()
    with Client(served.address) as client:
        first = client.decide("a", [1, 2, 3, 4])
        second = client.decide("a", np.array([0, 0, 0, 1.5], np.float32), reward=0.25)
        client.reward(second, -1.0, done=True)
        end = client.decide("a", [0, 0, 0, 0], done=True)
        spec = client.spec()
    assert isinstance(first, Decision)
    assert (first.action, second.action, end) == ([20.0], [3.0], None)
    assert (first.verdict, first.version, first.components["count"]) == ("SEND", 7, 4.0)
    assert served.loop.rewards == {1: 0.25, 2: -1.0}
    assert spec["task"] == "Cartpole"
    assert client.connections == 1


def test_refusals_are_exceptions_that_say_why(serve):
    served = serve()
    with Client(served.address) as client:
        decision = client.decide("a", [0, 0, 0, 0])
        client.reward(decision, 1.0)
        with pytest.raises(Refused, match="duplicate: decision 1 has its reward already"):
            client.reward(decision, 1.0)
        with pytest.raises(Refused, match=r"invalid: observations\.0\.obs: given a list of 3; expected a list of 4"):
            client.decide("a", [1, 2, 3])
        with pytest.raises(Refused, match=r"obs\.1: given NaN; expected a number from -3.4") as caught:
            client.decide("a", [1, float("nan"), 3, 4])
        assert (caught.value.kind, caught.value.field) == ("invalid", "observations.0.obs.1")
        assert client.decide("a", [0, 0, 0, 1]).decision == 2


def test_several_streams_are_asked_for_together(serve):
    served = serve(max_streams=3)
    with Client(served.address) as client:
        outcomes = client.decide_all({name: [i, 0, 0, 0] for i, name in enumerate("abcd")})
        last = {name: [0, 0, 0, 0] for name in "abc"}
        ended_episodes = client.decide_all(last, rewards={"b": 2.0}, done=["a"], truncated=["a", "c"])
    assert [outcomes[name].action for name in "abc"] == [[0.0], [2.0], [4.0]]
    assert outcomes["d"].kind == "too_many_streams"
    assert (ended_episodes["a"], ended_episodes["c"]) == (None, None)
    assert served.loop.rewards == {2: 2.0}
    assert served.loop.batches == [4, 3]


def test_what_a_program_sends_first_of_a_stream_begins_an_episode(serve):
    """Unless it sends the reward of an earlier decision, or the end of its episode, or says something else."""
    served = serve()
    with Client(served.address) as client:
        client.decide("a", [1, 0, 0, 0])
        client.decide("a", [2, 0, 0, 0])
        client.decide_all({"a": [3, 0, 0, 0], "b": [4, 0, 0, 0]})
        client.decide("b", [5, 0, 0, 0], first=True)
        client._socket.socket.shutdown(2)  # it reconnects, and goes on
        client.decide("b", [6, 0, 0, 0])
        client.decide("c", [7, 0, 0, 0], first=False)
    with Client(served.address) as restarted:
        restarted.decide_all({name: [8, 0, 0, 0] for name in "abc"}, {"a": 1.0}, done=["b"])
    assert served.loop.first == [("a", 1.0), ("b", 4.0), ("b", 5.0), ("c", 8.0)]


def test_an_environment_that_was_reset_begins_an_episode(serve):
    served = serve()
    with Client(served.address) as client:
        runner = Runner(CartPole(), client, "a", seed=0)
        rewards = runner.run(60)
    assert len(rewards) == 60
    assert len(served.loop.first) == runner.episodes + 1


def test_what_does_not_fit_into_one_message_is_sent_in_several(serve):
    served = serve()
    with Client(served.address) as client:
        outcomes = client.decide_all({f"s{i}": [i, 0, 0, 0] for i in range(100)})
    assert [outcomes[f"s{i}"].action for i in range(100)] == [[2.0 * i] for i in range(100)]
    assert served.loop.batches == [64, 36]
    items = {f"s{i}": "x" * (MAX_BYTES // 3) for i in range(7)}
    assert list(batches(items)) == [["s0", "s1"], ["s2", "s3"], ["s4", "s5"], ["s6"]]


def test_whole_numbers_are_sent_short_and_others_exactly():
    raw = {"map": np.zeros((2, 2), np.float32), "energy": np.float32(0.1), "on": np.array([True])}
    item = json.loads(item_of("a", raw, 3, None, None))
    assert item == {
        "stream": "a",
        "sequence": 3,
        "raw": {"map": [[0, 0], [0, 0]], "energy": 0.10000000149011612, "on": [1]},
    }
    assert np.float32(item["raw"]["energy"]) == np.float32(0.1)
    assert '"map":[[0,0],[0,0]]' in item_of("a", raw, 3, None, None)


def test_raw_observations_are_sent_by_name(serve):
    served = serve(raw=True)
    with Client(served.address) as client:
        decision = client.decide("a", {"energy": 8.0, "minerals": np.full((2, 3), 0.5)})
    assert decision.action == [22.0]


def test_a_lost_answer_is_asked_for_again_and_is_the_same(serve):
    """The connection breaks while the server decides; the decision is made once."""
    served = serve()
    with Client(served.address) as client:
        client.decide("a", [0, 0, 0, 0])
        served.loop.thinking.clear()
        served.loop.go.clear()
        results = []
        thread = threading.Thread(target=lambda: results.append(client.decide("a", [0, 0, 0, 2], reward=5.0)))
        thread.start()
        assert served.loop.thinking.wait(PATIENCE_S)
        client._socket.socket.shutdown(2)
        until(lambda: client.connections == 2)
        served.loop.go.set()
        thread.join(PATIENCE_S)
        assert results[0].decision == 2
        assert client.decide("a", [0, 0, 0, 3]).decision == 3
    assert served.loop.rewards == {1: 5.0}


def test_a_reward_whose_answer_was_lost_has_arrived(serve):
    served = serve()
    with Client(served.address) as client:
        decision = client.decide("a", [0, 0, 0, 0])
        served.loop.thinking.clear()
        served.loop.go.clear()
        thread = threading.Thread(target=lambda: client.reward(decision, 5.0))
        thread.start()
        assert served.loop.thinking.wait(PATIENCE_S)
        client._socket.socket.shutdown(2)
        until(lambda: client.connections == 2)
        served.loop.go.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        with pytest.raises(Refused, match="duplicate"):
            client.reward(decision, 5.0)
    assert served.loop.rewards == {1: 5.0}


def test_each_reward_joins_its_own_decision_though_the_connection_breaks_all_the_time(serve):
    served = serve()
    with Client(served.address) as client:
        last = None
        for step in range(300):
            if step % 10 == 9:
                client._socket.socket.shutdown(2)
            done = step % 23 == 22
            decision = client.decide("a", [step, 0, 0, 0], reward=last, done=done)
            last = None if done else decision.action[0]
    assert client.connections == 31
    assert len(served.loop.rewards) == 300 - 300 // 23 - 1
    assert all(served.loop.decided[number] == value for number, value in served.loop.rewards.items())


def test_it_waits_for_a_server_that_comes_back(serve):
    with serving() as first:
        port = first.gateway.port
        client = Client(first.address, tries=30)
        before = client.decide("a", [0, 0, 0, 1])
    results = []
    thread = threading.Thread(target=lambda: results.append(client.decide("a", [0, 0, 0, 2], reward=0.5)))
    thread.start()
    with serving(port=port, loop=first.loop) as second:
        thread.join(PATIENCE_S)
        client.close()
        assert second.gateway.port == port
    assert results[0].decision == before.decision + 1
    assert first.loop.rewards == {1: 0.5}


def test_it_asks_again_where_the_server_is_busy(serve, monkeypatch):
    monkeypatch.setattr("livegym.serve.server.RETRY_S", 0.05)
    served = serve(capacity=1)
    served.loop.go.clear()
    clients = [Client(served.address, tries=100) for _ in range(6)]
    results = {}

    def ask(i):
        results[i] = clients[i].decide(f"s{i}", [i, 0, 0, 0])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    until(lambda: served.inbox.busy > 3)
    served.loop.go.set()
    for i, thread in enumerate(threads):
        thread.join(PATIENCE_S)
        clients[i].close()
    assert {i: results[i].action for i in range(6)} == {i: [2.0 * i] for i in range(6)}
    assert served.inbox.most_waiting == 1


def test_it_gives_up_and_says_what_it_tried():
    with serving() as served:
        address = served.address
    with (
        Client(address, tries=3) as client,
        pytest.raises(Unreachable, match=r"no answer in 3 tries within \d+ s; .*refused.*Check that the server runs"),
    ):
        client.decide("a", [0, 0, 0, 0])
    with pytest.raises(Unreachable):
        client.spec()
    with Client(address, patience=0.5) as client, pytest.raises(Unreachable, match="within 0 s"):
        client.decide("a", [0, 0, 0, 0])


def test_a_server_that_does_not_want_it_is_asked_once(serve):
    closed, shown = serve(token=TOKEN), serve(read_only=True)
    with Client(closed.address, token="wrong") as client:
        with pytest.raises(Denied, match="the server answered 401: That token is wrong"):
            client.decide("a", [0, 0, 0, 0])
        with pytest.raises(Denied, match="401"):
            client.spec()
    with Client(shown.address) as client, pytest.raises(Denied, match="403: This server is read-only"):
        client.decide("a", [0, 0, 0, 0])
    with Client(closed.gateway.url) as client:  # as it is printed, with the token in it
        assert client.decide("a", [0, 0, 0, 0]).decision == 1
        assert client.spec()["v"] == 1
    with Client(closed.address, token=TOKEN) as client, Client(closed.address, token=TOKEN) as other:
        other.decide("b", [0, 0, 0, 0])
        with pytest.raises(Refused, match="foreign_stream: stream 'b' belongs to another client"):
            client.decide("b", [0, 0, 0, 0])


def test_addresses():
    for url in ("127.0.0.1:58080", "http://127.0.0.1:58080/", "ws://127.0.0.1:58080"):
        assert Address.of(url, None) == Address("http://127.0.0.1:58080/online/v1", None)
    proxied = Address.of("https://example.org/gym/?token=a%2Fb", None)
    assert proxied == Address("https://example.org/gym/online/v1", "a/b")
    assert proxied.socket("me") == "wss://example.org/gym/online/v1/ws?client=me"
    assert Address.of("http://h/?token=a", "b").token == "b"
    for url in ("ftp://h", "http://"):
        with pytest.raises(ValueError, match="expected an address such as"):
            Address.of(url, None)


class Counting(gymnasium.Env):
    """Episodes of 5 steps, of which each second one is ended by the clock; the reward is the action that came."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self):
        self.count, self.actions, self.episode = 0, [], 0

    def reset(self, *, seed=None, options=None):
        self.count, self.seed = 0, seed
        self.episode += 1
        return np.zeros(4, np.float32), {}

    def step(self, action):
        assert action.dtype == np.float32
        self.count += 1
        self.actions.append(float(action[0]))
        ended_episodes = [self.count == 5 and self.episode % 2 == which for which in (1, 0)]
        return np.full(4, self.count, np.float32), float(action[0]), *ended_episodes, {}


def test_a_runner_drives_an_environment_and_rewards_each_decision(serve):
    served = serve()
    env = Counting()
    with Client(served.address) as client:
        runner = Runner(env, client, "a", seed=3)
        first = runner.run(1)
        assert env.seed == 3
        rewards = first + runner.run(11)
    assert rewards == env.actions == [0, 8, 16, 24, 32, 0, 8, 16, 24, 32, 0, 8]
    assert runner.episodes == 2
    assert served.loop.ended_episodes == [(True, False), (False, True)]
    assert len(served.loop.rewards) == 11  # the last one's comes with the next observation
    assert all(served.loop.decided[number] == value for number, value in served.loop.rewards.items())


def test_a_runner_says_what_does_not_fit(serve, monkeypatch):
    served = serve()
    with Client(served.address) as client:
        with pytest.raises(ValueError, match="actions are Discrete, but the server's are Box"):
            Runner(gymnasium.make("CartPole-v1"), client, "a")
        real = client.decide

        def blocked(*given, **named):
            decision = real(*given, **named)
            return None if decision is None else dataclasses.replace(decision, executed=None)

        monkeypatch.setattr(client, "decide", blocked)
        with pytest.raises(ValueError, match=r"returned no action, because the gate blocked it\. Set Runner"):
            Runner(Counting(), client, "a").run(1)
        env = Counting()
        Runner(env, client, "b", idle=np.zeros(1, np.float32)).run(2)
        assert env.actions == [0.0, 0.0]


def test_two_environments_of_a_client_are_two_streams(serve):
    served = serve()
    with Client(served.address) as client:
        both = zip(client.episodes(Counting(), steps=7), client.episodes(Counting(), steps=7), strict=True)
        assert [(one.length, other.length) for one, other in both] == [(k % 5 + 1,) * 2 for k in range(7)]
        assert len(served.loop.streams) == 2
        own = min(served.loop.streams)
        assert set(served.loop.streams) == {own, f"{own}-2"}
        list(client.episodes(Counting(), steps=2))  # the others have ended, so their names are free
        opened = client.episodes(Counting(), stream="robot-1")
        next(opened)
        with pytest.raises(ValueError, match="stream='robot-1': another `episodes` of this client runs it"):
            next(client.episodes(Counting(), stream="robot-1"))
        opened.close()
        next(client.episodes(Counting(), stream="robot-1"))
    assert set(served.loop.streams) == {own, f"{own}-2", "robot-1"}
    assert len(served.loop.ended_episodes) == 2


class Interrupted(Counting):
    """Calls `lost` in its fifth step and in its second reset, if there is one."""

    lost = None

    def reset(self, **given):
        made = super().reset(**given)
        return self._losing(made, self.episode == 2)

    def step(self, action):
        return self._losing(super().step(action), self.count == 5)

    def _losing(self, made, now):
        if now and self.lost is not None:
            lost, self.lost = self.lost, None
            lost()
        return made


def test_the_end_of_an_episode_is_sent_once_the_server_is_back():
    env = Interrupted()
    with serving() as first:
        client = Client(first.address, tries=1)
        runner = Runner(env, client, "a")
        runner.run(4)
        env.lost = first.gateway.stop
        with pytest.raises(Unreachable):
            runner.step()
    assert first.loop.ended_episodes == []
    with serving(port=first.gateway.port, loop=first.loop) as second:
        last = runner.step()
        assert (last.reward, last.terminated, last.truncated, last.length) == (32.0, True, False, 5)
        assert (env.count, len(env.actions), runner.episodes) == (5, 5, 1)  # it was not stepped again
        assert second.loop.ended_episodes == [(True, False)]
        assert runner.step().episode == 2
        client.close()
    assert first.loop.rewards == {i + 1: reward for i, reward in enumerate(env.actions[:5])}


def test_the_beginning_of_an_episode_is_sent_once_the_server_is_back():
    env = Interrupted()
    with serving() as first:
        client = Client(first.address, tries=1)
        Runner(env, client, "a").run(2)  # this episode has no end
        env.lost = first.gateway.stop
        runner = Runner(env, client, "a")
        with pytest.raises(Unreachable):
            runner.step()
    with serving(port=first.gateway.port, loop=first.loop) as second:
        runner.step()
        client.close()
        assert [stream for stream, _ in second.loop.first] == ["a"]
    assert env.episode == 2


def test_an_end_that_is_refused_is_not_sent_again(serve):
    served = serve()
    env = Counting()
    real = env.step
    env.step = lambda action: (np.full(4, np.nan), *real(action)[1:]) if env.count == 4 else real(action)
    with Client(served.address) as client:
        runner = Runner(env, client, "a")
        runner.run(4)
        with pytest.raises(Refused, match="NaN"):
            runner.step()
        step = runner.step()
    assert (step.episode, step.length) == (2, 1)
    assert [stream for stream, _ in served.loop.first] == ["a", "a"]


def test_a_reward_is_sent_once_though_the_environment_fails(serve):
    served = serve()
    env = Counting()
    real = env.step
    with Client(served.address) as client:
        runner = Runner(env, client, "a")
        runner.run(2)
        env.step = lambda action: 1 / 0
        with pytest.raises(ZeroDivisionError):
            runner.step()
        env.step = real
        runner.run(2)
    assert served.loop.rewards == {1: 0.0, 2: 8.0, 4: 16.0}


def test_the_examples_cart_pole_is_livegyms(config):
    """From the same state and with the same pushes, both are in the same place after a third of a second."""
    typed = config("task=Cartpole", "numEnvs=1")
    env = make_env(typed.task, typed.sim, typed.physics, 1, 0)
    start = env.reset()["policy"][0].double().numpy()
    ours = CartPole()
    ours.reset(seed=0)
    ours._state = start.copy()
    for step in range(20):
        push = 0.02 if step % 7 < 3 else -0.02
        expected_obs = env.step(env.zero_action() + push).final_obs["policy"][0].numpy()
        own_obs, *_ = ours.step(np.array([push], np.float32))
    assert np.allclose(own_obs, expected_obs, rtol=0.05, atol=0.01)
    assert np.abs(expected_obs - start).max() > 0.1  # it moved


def test_the_example_learns_in_a_process_of_its_own(serve):
    served = serve()
    script = [sys.executable, str(ROOT / "examples" / "gym_client.py"), "--url", served.address]
    done = subprocess.run(
        [*script, "--steps", "120", "--streams", "2"], cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["100", "200", "240"]
    assert all("mean reward" in line for line in lines)
    assert len(served.loop.decided) == 240
    assert set(served.loop.streams) == {"cart-0", "cart-1"}
