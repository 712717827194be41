"""An environment that is known by its spaces: how they are read, what the policy sees of them, how it is served."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from livegym import train
from livegym.cfg import cli
from livegym.cfg.serve_command import arguments_of
from livegym.rl.spec import PolicySpec
from livegym.serve.messages import Description
from livegym.serve.streams import describe, features_of, reward_of
from livegym.tasks.base import Box, Discrete, MultiDiscrete
from livegym.tasks.build import make_env
from livegym.tasks.space import read_action_space, read_space, space_of, text_of_space
from livegym.tasks.spaces import Spaces, SpacesParams
from livegym.utils.errors import UserError
from livegym_client import Client
from livegym_client.runner import _difference
from tests.online_fixtures import Choosing
from tests.page_fixtures import browser, needs_chromium, new_page, text, wait
from tests.patience import PATIENCE_S
from tests.test_continuous_cli import Serving, trains
from tools import protocol_schema

__all__ = ["browser"]
pytest_plugins = ["online_fixtures"]
ROOT = Path(__file__).parent.parent
DOCUMENT = (ROOT / "docs" / "any-environment.md").read_text()
DICT = spaces.Dict({"at": spaces.Box(-1, 1, (2,)), "hand": spaces.Dict({"gear": spaces.Discrete(3, start=1)})})
GYMNASIUMS = [
    spaces.Box(-1, 1, (4,)),
    spaces.Box(np.array([-4.5, -np.inf], np.float32), np.array([4.5, np.inf], np.float32)),
    spaces.Box(0, 255, (2, 3), np.uint8),
    spaces.Discrete(3),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([3, 4]),
    spaces.MultiDiscrete([[1, 2], [3, 4]]),
    spaces.MultiBinary(4),
    spaces.MultiBinary([2, 3]),
]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.S)


@pytest.mark.parametrize("space", GYMNASIUMS, ids=str)
def test_a_space_is_read_as_gymnasium_prints_it_and_as_json(space):
    made = space_of(space)
    assert read_space(str(space), "it") == made
    assert read_space(text_of_space(made), "it") == made
    assert made.width == spaces.flatdim(space)


def test_a_dict_is_read_from_json_and_from_python():
    made = space_of(DICT)
    assert read_space(text_of_space(made), "it") == made
    assert read_space("Dict({'at': Box(-1, 1, (2,)), 'hand': Dict(gear=Discrete(3, start=1))})", "it") == made


@pytest.mark.parametrize(
    ("read", "written", "message"),
    [
        (read_space, "Tuple(Discrete(2))", "a Tuple is not supported. Allowed: Box, Discrete, MultiDiscrete"),
        (read_space, "Box(-1, 1, (5000,))", "it has 5000 numbers. Allowed: 1 to 4096"),
        (read_space, "Box(1", "it cannot be read"),
        (read_space, '{"type": "Box"}', "For example Box(-1, 1, (4,)) or Discrete(3)"),
        (read_space, "Box(2, 1, (2,))", "low 2 is above high 1"),
        (read_space, '{"type": "Box", "shape": [2], "low": [0, 1], "high": [0, 0.5]}', "low 1 is above high 0.5"),
        (read_space, "Discrete(0)", "a Discrete of 0 choices. Allowed: 1 or more"),
        (read_action_space, "Dict(a=Discrete(2))", "a Dict cannot be an action space. Allowed: Box"),
        (read_action_space, "Box(-inf, inf, (1,))", "Allowed: a Box with finite low and high"),
        (read_action_space, "Box(1, 1, (1,))", "Allowed: low below high"),
    ],
)
def test_a_space_that_cannot_be_used_is_named(read, written, message):
    with pytest.raises(UserError, match=re.escape(message)) as refused:
        read(written, "--space")
    assert str(refused.value).startswith(f"--space={written}")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "it needs the spaces of one environment"),
        (["--env", "Nope-v0"], "Allowed: the id of an installed Gymnasium environment"),
        (["--env", "Blackjack-v1"], "a Tuple is not supported"),
        (["--env", "CartPole-v1", "spaces.json"], "it needs the spaces of one environment"),
        (["--observation-space", "Box(-1, 1, (2,))"], "--action-space is missing"),
        (["spaces.json"], "no file of spaces"),
    ],
    ids=str,
)
def test_a_wrong_command_says_what_is_right(given, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=re.escape(message)):
        arguments_of(given)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"observation": "Box(-1, 1, (2,))"}', "no file of spaces (it has observation)"),
        ('{"v": 2, "observation": "Box(-1, 1, (2,))", "action": "Discrete(2)"}', "(it has action, observation, v)"),
        ("[1, 2]", "no file of spaces (it is no object)"),
        ('{"observation": "Box(-1', "no file of spaces (Unterminated string"),
        ('{"observation": "Box(nan, 1, (2,))", "action": "Discrete(2)"}', "Box(nan, 1, (2,)): a bound is NaN"),
    ],
)
def test_a_file_that_says_something_else_is_refused(content, message, tmp_path):
    (tmp_path / "spaces.json").write_text(content)
    with pytest.raises(UserError, match=re.escape(message)):
        arguments_of([str(tmp_path / "spaces.json")])


def test_the_command_stands_for_one_of_continuous_training(tmp_path):
    (spaces_file,) = blocks("json")
    (tmp_path / "spaces.json").write_text(spaces_file)
    made = arguments_of([str(tmp_path / "spaces.json"), "online.training_interval=1", "streamPort=0"])
    assert made[:3] == ["config=continuous", "task=Spaces", "simulator=external"]
    assert made[-2:] == ["online.training_interval=1", "streamPort=0"]
    assert "online.training_interval=0" not in made


def test_the_dashboard_is_headed_by_the_environment(config):
    arguments = arguments_of(["--env", "CartPole-v1"])
    c = config(*arguments)
    assert make_env(c.task, c.sim, c.physics, 1, 0).task.title == "CartPole-v1"
    assert environment(config, spaces.Discrete(2), spaces.Discrete(2)).task.title == ""


SPACES = '{"observation": "Box(-1, 1, (2,))", "action": "Discrete(2)"}'


@pytest.mark.parametrize(
    ("file", "more", "name"),
    [
        ("forklift.json", [], "forklift"),
        ("spaces.json", [], None),
        ("spaces.json", ["--name", "My robot: α"], "My robot: α"),
        ("forklift.json", ["--name", "3"], "3"),
        ("spaces.json", ["--name", "ロボット"], "ロボット"),  # the folder has the task's name then
    ],
)
def test_an_environment_is_named_by_the_user_or_its_file(file, more, name, tmp_path, config):
    (tmp_path / file).write_text(SPACES)
    assert config(*arguments_of([str(tmp_path / file), *more])).task.params.environment == name


@pytest.mark.parametrize("name", ["", "...", "/", "x" * 65])
def test_a_name_that_cannot_name_a_folder_is_refused(name, tmp_path):
    (tmp_path / "spaces.json").write_text(SPACES)
    with pytest.raises(UserError, match=re.escape(f"--name {name!r}: it names the run's folder too. Allowed:")):
        arguments_of([str(tmp_path / "spaces.json"), "--name", name])


def environment(config, observation, action):
    c = config(*arguments_of(["--observation-space", str(observation), "--action-space", str(action)]))
    return make_env(c.task, c.sim, c.physics, 1, 0)


def test_the_policy_sees_a_one_for_each_choice_and_nobody_computes_a_reward(config):
    env = environment(config, text_of_space(space_of(DICT)), spaces.MultiDiscrete([3, 4]))
    description = describe(env)
    assert description.spec.observations == (("observation", 5),)
    assert description.spec.action == MultiDiscrete((3, 4))
    assert list(description.raw_fields) == ["at", "hand.gear"]
    rows = np.array([[0.5, -0.5, 3.0]], np.float32)
    assert features_of(env)(rows).tolist() == [[0.5, -0.5, 0.0, 0.0, 1.0]]
    assert reward_of(env) is None


def test_a_box_is_sent_as_it_is_and_actions_are_told_in_its_units(config):
    env = environment(config, spaces.Box(-1, 1, (2, 2)), spaces.Box(np.array([0.0, -2.0]), np.array([1.0, 2.0])))
    description = describe(env)
    assert (description.spec.obs_width, description.spec.action, features_of(env)) == (4, Box(2), None)
    assert description.to_dict()["action"] == {"type": "Box", "size": 2, "low": [0.0, -2.0], "high": [1.0, 2.0]}
    assert description.units.to_client(np.array([-1.0, 0.5])).tolist() == [0.0, 1.0]
    assert torch.is_tensor(env.reset()["policy"])


@pytest.mark.parametrize("given", [("config=train_headless",), ("config=test",), ("config=continuous",)])
def test_it_cannot_be_simulated_here(given, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", "task=Spaces", *given])
    assert cli.run(train.job) == 2
    assert "task=Spaces has no simulator, because clients run its environment" in capfd.readouterr().err


def test_the_schema_beside_the_document_is_what_the_code_says():
    assert protocol_schema.text() == protocol_schema.OUT.read_text(), "run: python -m tools.protocol_schema"


def test_the_schema_is_served(serve):
    with serve().http() as http:
        schema = http.get("/schema.json").json()
    sent = schema["$defs"]["StreamObservation"]
    assert sent["additionalProperties"] is False
    assert set(sent["required"]) == {"stream", "obs"}
    assert {"episode", "executed", "executed_log_prob", "learn", "part"} <= set(sent["properties"])
    assert sent["properties"]["obs"]["minItems"] == 4
    assert len(schema["anyOf"]) == 3


def test_a_gymnasium_environment_is_run_step_by_step(serve):
    served = serve(kind=Choosing, spec=PolicySpec("Spaces", (("observation", 3),), (), Discrete(3), 1.0))
    env = gymnasium.make("MountainCar-v0", max_episode_steps=5)
    wider = gymnasium.wrappers.TransformObservation(
        env, lambda obs: np.append(obs, 1.0), spaces.Box(-2, 2, (3,), np.float32)
    )
    with Client(served.address) as client:
        steps = list(client.episodes(wider, stream="car", steps=12, seed=1))
        with pytest.raises(ValueError, match="Discrete of 3"):
            next(client.episodes(gymnasium.make("CartPole-v1")))
    assert [step.episode for step in steps] == [1] * 5 + [2] * 5 + [3] * 2
    assert [step.truncated for step in steps] == [k % 5 == 4 for k in range(12)]
    assert (steps[4].total, steps[4].length) == (-5.0, 5)
    assert served.loop.ended_episodes == [(False, True)] * 2
    assert [name for name, _ in served.loop.first] == ["car"] * 3
    assert list(served.loop.rewards.values()) == [-1.0] * 11  # the last one's comes with the next observation


@pytest.mark.parametrize(
    ("own", "served", "problem"),
    [
        (spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (2,)), ""),
        (spaces.Box(-2, 2, (1,)), spaces.Box(-2, 2, (1,)), ""),
        (spaces.Box(-np.inf, 1, (1,)), spaces.Box(-3, 1, (1,)), ""),
        (
            spaces.Box(np.float32([0, -0.1]), np.float32([1, 2])),
            spaces.Box(np.float32([0, -0.1]), np.float32([1, 2])),
            "",
        ),
        (spaces.Discrete(3, start=1), spaces.Discrete(3, start=1), ""),
        (spaces.MultiDiscrete([[2, 3]], start=[[1, 0]]), spaces.MultiDiscrete([2, 3], start=[1, 0]), ""),
        (spaces.MultiBinary([2, 2]), spaces.MultiBinary(4), ""),
        (spaces.Box(-2, 2, (1,)), spaces.Box(-1, 1, (1,)), "from -2 to 2, but the server's are from -1 to 1"),
        (spaces.Box(-np.inf, 2, (1,)), spaces.Box(-1, 1, (1,)), "from -inf to 2, but the server's are from -1 to 1"),
        (
            spaces.Box(0, 1, (2,)),
            spaces.Box(np.float32([0, 0]), np.float32([1, 2])),
            "to 1, but the server's are from 0 to [1.0, 2.0]",
        ),
        (spaces.Discrete(3, start=1), spaces.Discrete(3), "from 1 to 3, but the server's are from 0 to 2"),
        (spaces.Discrete(4), spaces.Discrete(3), "of 4, but the server's are Discrete of 3"),
        (
            spaces.MultiDiscrete([2, 3]),
            spaces.MultiDiscrete([3, 2]),
            "from 0 to [1.0, 2.0], but the server's are from 0 to [2.0, 1.0]",
        ),
        (spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3]), "from 0 to 1, but the server's are from 0 to [1.0, 2.0]"),
    ],
    ids=str,
)
def test_an_environments_actions_are_the_servers_to_their_bounds(own, served, problem):
    task = Spaces(SpacesParams(action_space=text_of_space(space_of(served))))
    spec = PolicySpec("Spaces", (("observation", 1),), (), task.action_spec, 1.0)
    found = _difference(own, Description(spec, {}, task.action_units()).to_dict()["action"])
    assert (found == "") == (problem == "")
    assert found.endswith(problem)


def with_game(folder):
    """A copy of the folder with the browser's game."""
    return Path(shutil.copytree(ROOT / "examples" / "browser_game", folder / "game"))


def of_document(folder, game):
    """The name of a module in the folder: a class Game, and the document's lines as they stand."""
    (lines,) = blocks("js")
    (folder / "document.js").write_text(f"{game}\n{lines}")
    return "document.js"


def test_the_lines_of_each_language_are_ten_at_most():
    for language in ("python", "js", "sh"):
        (lines,) = blocks(language)
        assert len(lines.strip().split("\n")) <= 10, language


def turned_away_for_a_moment(served, page, done):
    """The server is busy, and then no longer: all clients send their observations again; `done()` counts on."""
    served.inbox.capacity, busy = 0, served.inbox.busy
    wait(page, lambda: served.inbox.busy >= busy + 3)
    served.inbox.capacity, before = 4096, done()
    wait(page, lambda: done() > before + 2)


@pytest.mark.slow
@needs_chromium
def test_a_page_with_a_game_plays_by_itself(serve, browser, monkeypatch, tmp_path):
    monkeypatch.setattr("livegym.serve.intake.RETRY_S", 0.1)
    spec = PolicySpec("Spaces", (("observation", 3),), (), Discrete(3), 1.0)
    served = serve(kind=Choosing, spec=spec, page=(folder := with_game(tmp_path)))
    page = new_page(browser)
    page.goto(f"{served.address}/page/")
    wait(page, lambda: "balls, caught" in text(page, "#score"), lambda: text(page, "#score"))
    wait(page, lambda: len(served.loop.ended_episodes) > 20)
    assert set(served.loop.rewards.values()) <= {-1.0, 0.0, 1.0}
    assert page.locator("#curve polyline").get_attribute("points").count(",") > 1
    assert page.console_errors == []
    turned_away_for_a_moment(served, page, lambda: len(served.loop.ended_episodes))
    game = "class Game { reset() { return [0, 0, this.n = 0]; } step(a) { this.n += 1; "
    game += "return { obs: [a, 0, this.n], reward: 0.25, done: this.n > 3 }; } }"
    page.evaluate(f"import('./{of_document(folder, game)}')")
    turned_away_for_a_moment(served, page, lambda: list(served.loop.rewards.values()).count(0.25))
    assert set(served.loop.rewards.values()) == {-1.0, 0.0, 0.25, 1.0}
    assert page.console_errors == []
    page.context.close()


@pytest.mark.slow
@needs_chromium
def test_a_page_does_not_send_again_what_is_wrong(serve, browser, tmp_path):
    """It sent an observation of the wrong length for ever."""
    spec = PolicySpec("Spaces", (("observation", 2),), (), Discrete(3), 1.0)  # the game observes three numbers
    served = serve(kind=Choosing, spec=spec, page=(folder := with_game(tmp_path)))
    page = new_page(browser)
    page.add_init_script(
        "window.sent = window.timers = 0; const send = WebSocket.prototype.send, later = setTimeout;"
        "WebSocket.prototype.send = function (data) { window.sent += 1; window.socket = this; send.call(this, data); };"
        "window.setTimeout = (...all) => { window.timers += 1; return later(...all); };"
    )
    page.goto(f"{served.address}/page/")
    wait(page, lambda: "expected a list of 2 numbers" in text(page, "#score"), lambda: text(page, "#score"))
    assert page.evaluate("[window.sent, window.timers]") == [1, 0]
    assert text(page, "#score").startswith("The game has stopped.")
    page.evaluate("window.socket.close()")  # as the server does after a minute without a valid message
    wait(page, lambda: page.evaluate("window.socket.readyState") == 3)
    told = []
    page.on("console", lambda message: told.append(message.text))
    page.evaluate(f"import('./{of_document(folder, 'class Game { reset() { return [0, 0, 0]; } }')}')")
    wait(page, lambda: any("expected a list of 2 numbers" in each for each in told))
    assert page.evaluate("[window.sent, window.timers]") == [2, 0]
    page.context.close()


@pytest.mark.slow
@needs_chromium
def test_a_game_that_throws_is_told_and_ends_its_connection(serve, browser, tmp_path):
    spec = PolicySpec("Spaces", (("observation", 3),), (), Discrete(3), 1.0)
    served = serve(kind=Choosing, spec=spec, page=(folder := with_game(tmp_path)))
    page = new_page(browser)
    page.goto(f"{served.address}/page/")
    told = []
    page.on("console", lambda message: told.append(message.text))
    game = "class Game { reset() { return [0, 0, 0]; } step() { throw new Error('no such move'); } }"
    page.evaluate(f"import('./{of_document(folder, game)}')")
    wait(page, lambda: any("step: Error: no such move" in each for each in told))
    page.context.close()


def test_the_lines_for_curl_run_again_and_again(serve):
    served = serve(kind=Choosing, spec=PolicySpec("Spaces", (("observation", 4),), (), Discrete(2), 1.0))
    (shell,) = blocks("sh")
    shell = shell.replace("http://127.0.0.1:58080", served.address)
    answers = [said(shell) for _ in range(2)]
    assert [answer.count('"type":"decision"') for answer in answers] == [3, 3]
    assert [answer.count('"type":"ended"') for answer in answers] == [1, 1]
    assert served.loop.rewards == dict.fromkeys(range(1, 7), 1.0)


def said(shell):
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=PATIENCE_S)
    return done.stdout


@pytest.mark.slow
def test_the_document_connects_cartpole_and_the_run_goes_on(tmp_path):
    """As the document says: the command, ten lines of Python, curl; then a restart without the spaces."""
    command, _, resume, _ = blocks("bash")
    assert command.strip() == "python train.py serve --env CartPole-v1"
    with Serving(tmp_path, *command.split()[2:], "streamPort=0") as serving:
        serving.wait_for("dashboard at")
        url = re.search(r"dashboard at (\S+)", serving.text)[1]
        (lines,), (shell,) = blocks("python"), blocks("sh")
        lines = lines.replace("http://127.0.0.1:58080/", url).replace("50_000", "400")
        path = {"PYTHONPATH": str(ROOT / "clients" / "python"), "PATH": "/usr/bin:/bin"}
        done = subprocess.run([sys.executable, "-c", lines], env=path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert re.search(r"^episode 3: return \d+, version \d+$", done.stdout, re.MULTILINE)
        shell = shell.replace("http://127.0.0.1:58080/", url)
        answers = subprocess.run(["bash", "-c", shell], env=path, capture_output=True, text=True, timeout=PATIENCE_S)
        assert answers.stdout.count('"type":"decision"') == 3
        assert '"type":"ended"' in answers.stdout
        learned = serving.until(lambda s: trains(s) and s["serving"]["version"] > 3)
        assert learned["buffer"]["added"] >= 399
        assert learned["run"].startswith("CartPole-v1_continuous_")
        assert serving.end() == 0
    (plots,) = tmp_path.glob("runs/CartPole-v1_continuous_*/history.json")
    times = json.loads(plots.read_text())["recent"]["t"]
    with Serving(tmp_path, *resume.split()[2:], "streamPort=0", name="again") as again:
        assert again.until(lambda s: s["serving"]["version"] > 1)["buffer"]["added"] >= 399
        answered = time.monotonic()
        again.until(lambda s: time.monotonic() > answered + 2.5)  # a point is added once a second
        assert again.end() == 0
    assert 0 < len(times) < len(later := json.loads(plots.read_text())["recent"]["t"])
    assert later[: len(times)] == times  # the plots go on
