"""Task code in the layout of dexrobot_isaac: Hydra's configuration, rewards by name, resets, successes, resume."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.compat.foreign import composed
from livegym.projects.checkout import Checkout
from livegym.utils.errors import UserError
from tests.isaac_toys import GRIPPERS, copied, grippers, made, needs_isaacgym, project  # noqa: F401 - a fixture
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent
pytestmark = [needs_isaacgym, pytest.mark.usefixtures("grippers")]

TASK = "isaac_grippers:Pinch"
UNSTABLE, TERMINATED, TIME_LIMIT, SUCCESS = range(4)


def pinch(*overrides: str, num_envs: int = 8):
    """Environments of the toy, begun."""
    env = made(*overrides, task=TASK, num_envs=num_envs)
    env.reset()
    return env


def grasp(env, up: float = 1.0) -> torch.Tensor:
    """Fingers close; the wrist lifts after they have."""
    lift = torch.where(env.episode_length > 6, up, 0.0)
    return torch.stack([lift, torch.ones(env.num_envs), torch.ones(env.num_envs)], 1)


def test_the_source_is_the_folder_and_hydra_composes(grippers):  # noqa: F811
    assert isinstance(grippers, Checkout)
    assert (grippers.name, grippers.package, grippers.layout) == ("isaac_grippers", "grippers", "factory")
    assert grippers.tasks == {"isaac_grippers-Pinch": "Pinch"}
    config = composed.config_of(grippers, "Pinch", {"task": {"liftHeight": 0.05}})
    assert config["env"]["numEnvs"] == 48  # its own yaml refers to itself
    assert config["sim"]["substeps"] == 2  # of physics/default.yaml
    assert config["physics_engine"] == "physx"
    assert (config["env"]["device"], config["env"]["viewer"], config["device"]) == ("cpu", False, "cpu")
    assert config["task"]["liftHeight"] == 0.05
    changed = composed.config_of(grippers, "Pinch", {"env": {"device": "cuda:0"}})
    assert changed["env"]["device"] == "cpu"  # nothing here can be on another device


def test_settings_of_its_learner_become_those_of_ppo():
    config = to_typed(compose([f"task={TASK}"]))
    assert config.task.num_envs == 48
    assert list(config.train.network.units) == [32, 32]
    assert (config.train.max_iterations, config.train.horizon_length, config.train.num_minibatches) == (20, 8, 8)
    assert config.task.params.task.reward_weights.height == 2.0
    with pytest.raises(UserError, match="liftHeight"):
        compose([f"task={TASK}", "task.params.task.liftHight=0.1"])


def test_keys_of_its_own_configuration_are_understood(caplog):
    caplog.set_level("INFO")
    typed = [
        "env.numEnvs=12",
        "task.liftHeight=0.05",
        "task.reward_weights.height=3",
        "sim.substeps=4",
        "sim.threads=1",
    ]
    config = to_typed(compose([f"task={TASK}", *typed]))
    params = config.task.params
    assert (config.numEnvs, config.sim.threads) == (12, 1)
    assert (params.task.liftHeight, params.task.reward_weights.height, params.sim.substeps) == (0.05, 3, 4)
    assert "sim.substeps=4 is task.params.sim.substeps=4 here" in caplog.messages
    with pytest.raises(UserError, match=r"task\.liftHight=0\.05: there is no such key"):
        compose([f"task={TASK}", "task.liftHight=0.05"])


def test_a_tasks_own_key_is_not_taken_for_one_of_the_run_whose_last_word_is_the_same(tmp_path):
    folder = copied(tmp_path, GRIPPERS)
    yaml = folder / "grippers" / "cfg" / "task" / "Pinch.yaml"
    text = yaml.read_text()
    yaml.write_text(text.replace("\nenv:\n", "\nenv:\n  box: {seed: 1, priority: 2, log: 3}\n", 1))
    assert "box:" in yaml.read_text()
    typed = ["env.box.seed=5", "task.env.box.log=7", "env.numEnvs=12", "env.device=cpu", "env.viewer=true"]
    with project(folder):
        config = to_typed(compose([f"task={TASK}", *typed, "sim.seed=9"]))
    box = config.task.params.env.box
    assert (box.seed, box.log, config.numEnvs, config.seed) == (5, 7, 12, 9)
    assert (config.device, config.viewer) == ("cpu", True)


def test_devices_windows_and_videos_are_livegyms_though_the_project_has_such_keys():
    """Its own would reach the foreign code, or open nothing."""
    typed = ["config=test_viewer", "env.device=cpu", "env.viewer=false", "task.env.videoRecord=true"]
    config = to_typed(compose([f"task={TASK}", *typed, "checkpoint=latest", "env.videoStream=true"]))
    assert (config.device, config.viewer, config.videoRecord, config.watch) == ("cpu", False, True, True)
    assert not hasattr(config.task.params.env, "viewer")
    for key in ("env.device", "env.viewer", "device", "sim.graphicsDeviceId"):
        with pytest.raises(UserError, match=rf"task\.params\.{key}=1: "):
            compose([f"task={TASK}", f"task.params.{key}=1"])
    with pytest.raises(UserError, match=r"sim\.graphicsDeviceId=0: .*Engine and device are chosen"):
        compose([f"task={TASK}", "sim.graphicsDeviceId=0"])


def test_what_is_set_here_has_a_key_of_livegym_or_none():
    leaves = {f"{key}.{name}" for key in ("env", "sim") for name in composed.HERE[key]}
    assert leaves == {*composed.OF_LIVEGYM, "sim.graphicsDeviceId"}


def test_the_log_says_which_key_was_set_before_logging_is_set_up():
    code = f"""
from livegym.projects import registry
registry.use({str(GRIPPERS)!r})
from livegym.cfg.upstream_keys import with_upstream_keys
with_upstream_keys(["task=isaac_grippers-Pinch", "sim.substeps=4"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert "sim.substeps=4 is task.params.sim.substeps=4 here" in done.stdout + done.stderr


def test_yaml_that_hydra_cannot_compose_is_an_error_with_its_file(tmp_path):
    folder = copied(tmp_path, GRIPPERS)
    yaml = folder / "grippers" / "cfg" / "task" / "Pinch.yaml"
    yaml.write_text(yaml.read_text().replace("/physics/default", "/physics/fast"))
    with project(folder), pytest.raises(UserError, match=r"Pinch.yaml: cannot be composed.*physics/fast"):
        compose([f"task={TASK}"])


def test_rewards_have_names_and_add_up_to_the_environments_own():
    env = pinch()
    assert env.terms.names == ("closeness", "height", "success", "other")
    assert env.reason_names == ("unstable", "terminated", "time_limit", "success")
    assert env.success_reason == "success"
    for _ in range(12):
        step = env.step(grasp(env))
        torch.testing.assert_close(step.terms.sum(1), step.reward)
        assert (step.terms[:, 0] >= 0).all()
        assert (step.terms[:, 3].abs() < 1e-5).all()


def test_a_grasped_box_is_lifted_and_that_is_success():
    """Light fingers at their effort limit hold the box: friction, contacts of driven links, and limits together."""
    env = pinch()
    for _ in range(29):
        step = env.step(grasp(env))
        if step.ended is not None:
            break
    assert step.ended is not None
    assert step.terminated.any()
    assert not step.truncated.any()
    ended = step.ended.reasons.tolist()
    assert set(ended) == {SUCCESS}
    assert step.terms[step.terminated, 2].min() == 10.0
    last = step.obs["policy"]
    assert torch.equal(last, step.final_obs["policy"])
    after = env.step(env.zero_action())
    assert (after.obs["policy"][step.terminated, 6:9].abs() < 1e-6).all()  # targets are those of a new episode


def test_a_time_limit_is_a_failure_to_its_learner_but_has_its_name():
    env = pinch()
    for _ in range(30):
        step = env.step(env.zero_action())
    assert step.ended is not None
    assert step.ended.reasons.tolist() == [TIME_LIMIT] * 8
    assert step.terminated.all()
    assert not step.truncated.any()


def test_components_are_remembered():
    env = pinch()
    for _ in range(8):
        env.step(grasp(env))
    state = env.state_dict()
    assert "targets.now" in state["foreign"]
    other = pinch()
    other.load_state_dict(state)
    for _ in range(5):
        ours, theirs = env.step(grasp(env)), other.step(grasp(env))
        assert torch.equal(ours.obs["policy"], theirs.obs["policy"])
        assert torch.equal(ours.terms, theirs.terms)


def test_its_messages_are_in_the_log_without_loguru(caplog):
    with caplog.at_level("INFO"):
        pinch(num_envs=4)
    assert "making 4 environments of Pinch" in caplog.messages
    assert "built" in caplog.messages
