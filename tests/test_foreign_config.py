"""Upstream configuration becomes task.params and train: resolved, overridden and mapped as the tables say."""

from __future__ import annotations

import math

import pytest

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.compat.core import lines
from livegym.compat.foreign import configs, settings, task
from livegym.projects import registry
from livegym.tasks import TASKS
from livegym.utils.errors import UserError
from tests.isaac_toys import TOYS, toys  # noqa: F401 - a fixture

RL_GAMES = {
    "algo": {"name": "a2c_continuous"},
    "network": {
        "separate": False,
        "space": {"continuous": {"sigma_init": {"name": "const_initializer", "val": -1.0}, "fixed_sigma": True}},
        "mlp": {"units": [256, 128], "activation": "relu"},
        "rnn": {"name": "gru", "units": 64, "layers": 2, "before_mlp": True},
    },
    "config": {
        "horizon_length": 16,
        "minibatch_size": 32768,
        "mini_epochs": 4,
        "learning_rate": "3e-4",
        "lr_schedule": "adaptive",
        "schedule_type": "legacy",
        "kl_threshold": 0.008,
        "truncate_grads": True,
        "grad_norm": 0.5,
        "reward_shaper": {"scale_value": 0.01, "min_val": -1},
        "seq_len": 8,
        "max_epochs": 500,
        "score_to_win": 20000,
        "mixed_precision": False,
    },
}


class Nested:
    """As a configuration of legged_gym."""

    class env:
        num_envs = 4096
        size = (1, 2)

    class commands:
        class ranges:
            speed = [-1.0, 1.0]

    scale = 2
    function = len


def test_rl_games_settings_by_the_table():
    found, left = settings.from_rl_games(RL_GAMES, num_envs=4096)
    assert found == {
        "horizon_length": 16,
        "mini_epochs": 4,
        "learning_rate": 3e-4,
        "kl_threshold": 0.008,
        "max_iterations": 500,
        "grad_norm": 0.5,
        "bounds_loss_coef": 0.0,  # without the key, rl_games has no such loss
        "lr_schedule": "adaptive",
        "lr_update": "minibatch",
        "reward_scale": 0.01,
        "num_minibatches": 2,
        "network": {
            "units": [256, 128],
            "activation": "relu",
            "separate": False,
            "initial_log_std": -1.0,
            "recurrent": {"cell": "gru", "units": 64, "layers": 2, "sequence_length": 8},
        },
    }
    assert left == ["network.rnn.before_mlp=True", "config.reward_shaper.min_val=-1"]


@pytest.mark.parametrize(
    ("theirs", "ours", "left"),
    [
        ({"schedule_type": "standard"}, "mini_epoch", []),
        ({"schedule_type": "legacy"}, "minibatch", []),
        ({}, "minibatch", []),  # rl_games' default
        ({"schedule_type": "standard_epoch"}, "mini_epoch", ["config.schedule_type=standard_epoch"]),
    ],
)
def test_the_learning_rate_adapts_when_upstreams_does(theirs, ours, left):
    found, unknown = settings.from_rl_games({"config": {"lr_schedule": "adaptive", **theirs}}, 16)
    assert (found["lr_update"], unknown) == (ours, left)


def test_a_constant_learning_rate_does_not_adapt():
    assert "lr_update" not in settings.from_rl_games({"config": {"schedule_type": "legacy"}}, 16)[0]


def test_gradients_that_upstream_does_not_clip_are_not_clipped():
    found, _ = settings.from_rl_games({"config": {"truncate_grads": False, "grad_norm": 1.0}}, 16)
    assert found["grad_norm"] == settings.UNCLIPPED


def test_another_algorithm_is_named():
    _, left = settings.from_rl_games({"algo": {"name": "amp_continuous"}, "config": {}}, 16)
    assert left == ["algo.name=amp_continuous, instead of which PPO trains on the task's reward"]


def test_rsl_rl_settings_by_the_table():
    train = {
        "algorithm": {
            "value_loss_coef": 1.0,
            "clip_param": 0.2,
            "lam": 0.95,
            "schedule": "fixed",
            "num_mini_batches": 4,
        },
        "policy": {"init_noise_std": 1.0, "actor_hidden_dims": [8, 4], "critic_hidden_dims": [8], "activation": "elu"},
        "runner": {"num_steps_per_env": 24, "max_iterations": 7},
    }
    found, left = settings.from_rsl_rl(train, action_range=5.0)
    assert found["critic_coef"] == 2.0
    assert (found["e_clip"], found["tau"], found["lr_schedule"], found["num_minibatches"]) == (0.2, 0.95, "constant", 4)
    assert (found["horizon_length"], found["max_iterations"]) == (24, 7)
    assert found["network"]["units"] == [8, 4]
    assert found["network"]["initial_log_std"] == pytest.approx(math.log(0.2))
    assert found["network"]["mean_scale"] == pytest.approx(0.2)  # so that a step of Adam means what it means there
    assert left == ["policy.critic_hidden_dims=[8]"]


def test_an_action_reaches_as_far_as_the_task_clips_it():
    assert settings.action_range({"normalization": {"clip_actions": 2.0}}) == 2.0
    assert settings.action_range({"normalization": {"clip_actions": 100.0}}) == settings.WIDE


def test_classes_become_plain_values_and_take_changes():
    plain = configs.plain(Nested())
    assert plain == {
        "env": {"num_envs": 4096, "size": [1, 2]},
        "commands": {"ranges": {"speed": [-1.0, 1.0]}},
        "scale": 2,
    }
    config = configs.independent(Nested())
    configs.write_into(config, {"commands": {"ranges": {"speed": [0.0, 2.0]}}, "env": {"size": [3, 4]}})
    assert config.commands.ranges.speed == [0.0, 2.0]
    assert config.env.size == (3, 4)
    assert Nested.commands.ranges.speed == [-1.0, 1.0]  # classes are shared by all that use them
    assert Nested.env.size == (1, 2)
    assert configs.changed({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 5}, "d": 3}) == {"a": {"c": 2}}


@pytest.mark.usefixtures("toys")
def test_yaml_is_resolved_for_the_cpu_and_follows_changes():
    checkout = registry.project_in_use()
    found = configs.yaml_config(checkout, "Swing")
    assert found["env"]["numEnvs"] == 64
    assert found["sim"]["use_gpu_pipeline"] is False
    assert found["sim"]["physx"]["use_gpu"] is False
    assert found["env"]["torqueRatio"] == 4.0
    assert configs.yaml_config(checkout, "Swing", {"env": {"maxTorque": 7}})["env"]["torqueRatio"] == 7
    assert configs.yaml_config(checkout, "SwingSlow")["env"]["controlFrequencyInv"] == 3
    assert configs.yaml_settings(checkout, "Swing")["config"]["max_epochs"] == 20


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("somebody", [True, False])
def test_yaml_that_refers_to_headless_says_what_the_constructor_is_told(somebody):
    checkout = registry.project_in_use()
    with lines.expected(somebody):
        assert configs.yaml_config(checkout, "Swing", {"env": {"asked": "${headless}"}})["env"]["asked"] is not somebody


@pytest.mark.parametrize(
    ("content", "length_s", "decimation"),
    [
        ({"sim": {"dt": 0.02}, "env": {"episodeLength": 40}}, 0.8, 1),
        ({"sim": {"dt": 0.02}, "env": {"episodeLength": 40, "controlFrequencyInv": 3}}, 2.4, 3),
        ({"sim": {"dt": 0.01}, "env": {"maxEpisodeLength": 500, "controlFrequencyInv": 2}}, 10.0, 2),
        ({"sim": {"dt": 0.005}, "env": {"learn": {"episodeLength_s": 20}, "control": {"decimation": 4}}}, 20.0, 4),
        ({"sim": {"dt": 0.005}, "env": {"episode_length_s": 20}, "control": {"decimation": 4}}, 20.0, 4),
        ({"env": {"episodeLength": 120}}, 2.0, 1),
        ({"sim": {"dt": 0.02}, "env": {"episodeLength": None, "controlFrequencyInv": ""}}, task.MAX_LENGTH, 1),
    ],
)
def test_time_limits_and_control_steps_are_read_wherever_upstream_has_them(content, length_s, decimation):
    assert task._times(content) == {"episode_length_s": pytest.approx(length_s), "decimation": decimation}


@pytest.mark.usefixtures("toys")
def test_a_step_that_simulates_several_times_is_counted_in_the_time_limit():
    config = to_typed(compose(["task=toys:SwingSlow"]))
    assert (config.task.episode_length_s, config.task.decimation) == (pytest.approx(2.4), 3)


@pytest.mark.usefixtures("toys")
def test_a_composed_configuration_has_the_upstream_values():
    config = to_typed(compose(["task=toys:Swing", "task.params.env.asset.file=other.urdf", "train.mini_epochs=2"]))
    assert config.task.name == "toys-Swing"
    assert config.task.num_envs == 64
    assert config.task.episode_length_s == pytest.approx(0.8)
    assert config.task.params.env.asset.file == "other.urdf"
    assert config.task.params.sim.gravity == [0.0, 0.0, -9.81]
    assert (config.train.mini_epochs, config.train.num_minibatches, config.train.gamma) == (2, 2, 0.98)
    assert config.train.network.units == [32, 32]
    assert TASKS["toys-Swing"].Params().env.asset.file == "arm.urdf"


@pytest.mark.usefixtures("toys")
def test_an_unknown_key_of_the_upstream_configuration_is_refused_with_the_nearest():
    with pytest.raises(UserError, match=r"Did you mean task\.params\.env\.maxTorque"):
        compose(["task=toys:Swing", "task.params.env.maxTorqe=3"])


@pytest.mark.usefixtures("toys")
def test_yaml_that_does_not_resolve_names_its_file():
    checkout = registry.project_in_use()
    with pytest.raises(UserError, match=r"Swing.yaml: cannot be resolved"):
        configs.yaml_config(checkout, "Swing", {"env": {"damping": "${...nothing}"}})


def test_the_toys_are_in_the_repository():
    assert (TOYS / "toys" / "cfg" / "task" / "Swing.yaml").is_file()


def test_actions_that_rl_games_does_not_clip_have_the_tasks_range():
    unclipped = {"config": {"clip_actions": False}}
    assert settings.yaml_range({"clipActions": 1.0}, {}) == 1.0
    assert settings.yaml_range({"clipActions": 2.0}, unclipped) == 2.0
    assert settings.yaml_range({}, unclipped) == settings.WIDE
    found, left = settings.from_rl_games(unclipped, 16, reach=5.0)
    assert found["network"]["initial_log_std"] == pytest.approx(-math.log(5.0))  # as wide as upstream's, in its units
    assert found["network"]["mean_scale"] == pytest.approx(0.2)
    assert left == ["config.clip_actions=False: actions beyond 5 are clipped"]
