"""Gymnasium's interfaces: its own checkers, hand-computed ends of episodes, copies, seeds, and words for the rest."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.error import ClosedEnvironmentError, NameNotFound, ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.env_match import check_environments_match
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

import livegym
from livegym.learners import arrays as arrays_module
from livegym.learners import gymnasium_env
from livegym.learners.arrays import ArrayEnv
from livegym.projects import registry
from livegym.schema import CurriculumConfig
from livegym.tasks.base import Box, Discrete, MultiDiscrete
from livegym.utils.errors import UserError
from livegym.utils.search_path import child_environment
from tests.dummy import Counting, CountingParams, counting_env
from tests.isaac_toys import TOYS, needs_isaacgym

TASKS = ("Ant", "BaseTask", "BlindGrasping", "Cartpole", "Territory")
HANDS = ("BaseTask", "BlindGrasping")
SAME_STEP = AutoresetMode.SAME_STEP


@pytest.fixture
def counting(monkeypatch):
    """The tasks of the ids count; `counting(length=3)` makes their environments."""

    def use(**changes):
        monkeypatch.setattr(
            gymnasium_env, "make_env", lambda task, num_envs, *_, **__: counting_env(num_envs, **changes)
        )

    use(length=3)
    return use


@pytest.fixture
def _no_project():
    yield
    registry.use(None)


def vector(task: str = "Cartpole", num_envs: int = 2, **options):
    return gymnasium.make_vec(f"livegym/{task}-v0", num_envs=num_envs, **options)


def single(task: str = "Cartpole", **options):
    return gymnasium.make(f"livegym/{task}-v0", **options)


def zeros(envs) -> np.ndarray:
    return np.zeros(envs.action_space.shape, envs.action_space.dtype)


@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=pytest.mark.slow) if task in HANDS else task for task in TASKS]
)
def test_gymnasiums_checker_passes(task):
    env = single(task).unwrapped
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=True, skip_close_check=True)
    env.close()
    said = [str(warning.message) for warning in warned]
    assert all("infinity" in text for text in said), said  # observations have no bounds


def test_the_registry_has_every_task_that_can_be_simulated_here():
    ids = {name for name in gymnasium.registry if name.startswith("livegym/")}
    assert ids == {f"livegym/{task}-v0" for task in (*TASKS, "Push", "Task")}  # Push is refused with a reason
    livegym.register_envs()  # a second call does nothing
    assert ids == {name for name in gymnasium.registry if name.startswith("livegym/")}
    with pytest.raises(NameNotFound, match=r"Did you mean: `Ant`"):
        vector("Antt")


@pytest.mark.parametrize("order", ["import livegym, gymnasium", "import gymnasium, livegym"])
def test_importing_livegym_suffices_in_either_order_and_imports_no_library(order):
    program = (
        f"{order}; print('livegym/Ant-v0' in gymnasium.registry, 'torch' in __import__('sys').modules);"
        "import inspect; print(len(inspect.getsource(gymnasium)) > 100)"
    )
    assert said_by(program).split() == ["True", "False", "True"]
    assert said_by("import livegym, sys; print({'gymnasium', 'numpy', 'torch'} & set(sys.modules))") == "set()\n"


def test_importing_livegym_suffices_after_look_ups_and_after_an_import_that_failed(tmp_path):
    """`livegym.make_env("Ant")` looks whether gymnasium is there, for example."""
    looked = "import livegym, importlib.util as u; u.find_spec('gymnasium'); u.find_spec('gymnasium'); "
    assert said_by(looked + "import gymnasium; print('livegym/Ant-v0' in gymnasium.registry)") == "True\n"
    (tmp_path / "gymnasium.py").write_text("raise ImportError('half installed')")
    program = (
        "import livegym, sys\nbefore = len(sys.meta_path)\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "try:\n    import gymnasium\nexcept ImportError:\n    sys.path.pop(0)\n"
        "import gymnasium\n"
        "print('livegym/Ant-v0' in gymnasium.registry, before - len(sys.meta_path))"
    )
    assert said_by(program) == "True 1\n"


def said_by(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=True).stdout


def test_an_episode_ends_and_the_next_begins_in_the_same_step(counting):
    envs = vector()
    assert envs.metadata["autoreset_mode"] is SAME_STEP
    obs, infos = envs.reset()
    assert (obs.tolist(), infos) == ([[2.0, 0.0], [2.0, 0.0]], {})  # [episode, step]; the first one measured the widths
    for step in (1, 2):
        obs, reward, terminated, truncated, infos = envs.step(zeros(envs))
        assert (obs.tolist(), reward.tolist(), infos) == ([[2.0, step]] * 2, [1.0, 1.0], {})
        assert not (terminated | truncated).any()
    obs, reward, terminated, truncated, infos = envs.step(zeros(envs))
    assert obs.tolist() == [[3.0, 0.0], [3.0, 0.0]]
    assert (reward.tolist(), terminated.tolist(), truncated.tolist()) == ([1.0, 1.0], [False, False], [True, True])
    assert [last.tolist() for last in infos["final_obs"]] == [[2.0, 3.0], [2.0, 3.0]]
    info = infos["final_info"]
    assert (info["reason"].tolist(), info["return"].tolist()) == (["time_limit"] * 2, [3.0, 3.0])
    assert (info["length"].tolist(), info["length"].dtype) == ([3, 3], np.int64)
    envs.close()


def test_only_the_environments_that_ended_have_last_observations(counting):
    class Uneven(Counting):
        """Environment 1 fails at step 2."""

        def terminate(self, state):
            return {"failed": (state.qpos[:, 1] >= 2) & (torch.arange(state.num_envs) == 1)}

    counting(length=3, task=Uneven)
    envs = vector(num_envs=3)
    envs.reset()
    envs.step(zeros(envs))
    obs, _, terminated, truncated, infos = envs.step(zeros(envs))
    assert obs.tolist() == [[2.0, 2.0], [3.0, 0.0], [2.0, 2.0]]
    assert (terminated.tolist(), truncated.tolist()) == ([False, True, False], [False] * 3)
    assert infos["final_obs"][0] is infos["final_obs"][2] is None
    assert infos["final_obs"][1].tolist() == [2.0, 2.0]
    for mask in ("_final_obs", "_final_info"):
        assert infos[mask].tolist() == [False, True, False]
    assert infos["final_info"]["reason"].tolist() == [None, "failed", None]
    assert infos["final_info"]["_reason"].tolist() == [False, True, False]
    assert DictInfoToList(envs)._convert_info_to_list(infos)[1]["final_info"]["length"] == 2


def test_its_infos_have_the_form_of_gymnasiums_own_vector_environment(counting):
    ours = vector()
    theirs = vector(vectorization_mode="sync", vector_kwargs={"autoreset_mode": SAME_STEP})
    for envs in (ours, theirs):
        envs.reset(seed=1)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    for _ in range(7):
        mine, other = ours.step(zeros(ours)), theirs.step(zeros(theirs))
        assert np.array_equal(mine[0][:, 1], other[0][:, 1])
        assert [array.tolist() for array in mine[1:4]] == [array.tolist() for array in other[1:4]]
        assert shape_of(mine[4]) == shape_of(other[4])


def shape_of(infos):
    """The names, types and masks of infos."""
    if isinstance(infos, dict):
        return {name: shape_of(value) for name, value in infos.items()}
    return infos.dtype, infos.shape, [type(value) for value in infos]


def test_a_recorder_of_gymnasium_sees_every_episode(counting):
    envs = RecordEpisodeStatistics(vector(num_envs=3))
    envs.reset(seed=1)
    ends = sum(int((step[2] | step[3]).sum()) for step in (envs.step(zeros(envs)) for _ in range(10)))
    assert (ends, envs.episode_count) == (9, 9)
    assert list(envs.length_queue) == [3] * 9


def test_one_environment_waits_for_its_reset(counting):
    env = single()
    obs, _ = env.reset()
    assert obs.tolist() == [2.0, 0.0]
    steps = [env.step(np.zeros(1, np.float32)) for _ in range(3)]
    obs, reward, terminated, truncated, info = steps[-1]
    assert (obs.tolist(), reward, terminated, truncated) == ([2.0, 3.0], 1.0, False, True)
    assert info == {"reason": "time_limit", "return": 3.0, "length": 3}
    assert steps[0][4] == {}
    with pytest.raises(ResetNeeded, match=r"the episode has ended"):
        env.step(np.zeros(1, np.float32))
    assert env.reset()[0].tolist() == [3.0, 0.0]
    assert env.step(np.zeros(1, np.float32))[0].tolist() == [3.0, 1.0]
    assert env.reset()[0].tolist() == [4.0, 0.0]


class Winning(Counting):
    success_reason = "failed"  # its only reason


def test_a_task_with_success_tells_it():
    arrays = ArrayEnv(counting_env(2, 5, task=Winning, params=CountingParams(fail_at=2)), None, 16, 16)
    arrays.reset()
    steps = [arrays.step(np.zeros((2, 1))) for _ in range(2)]
    info = arrays.final_info(steps[1].ended, np.arange(2))
    assert (info["success"].tolist(), info["reason"].tolist()) == ([True, True], ["failed", "failed"])


def test_what_is_handed_out_is_the_callers_own(counting):
    """A learner keeps arrays, and may write into them: neither changes what comes next."""
    counting(length=2)
    kept, vandalised = vector(), vector()
    first = [kept.reset(seed=1)[0]]
    other = vandalised.reset(seed=1)[0]
    before = [first[0].copy()]
    other[:] = np.nan
    for _ in range(6):
        actions = zeros(kept)
        step, broken = kept.step(actions), vandalised.step(actions)
        assert all(np.array_equal(a, b) for a, b in zip(step[:4], broken[:4], strict=True))
        first += [step[0], step[1], step[2], step[3], *[o for o in step[4].get("final_obs", []) if o is not None]]
        before += [array.copy() for array in first[len(before) :]]
        for array in (*broken[:4], *[o for o in broken[4].get("final_obs", []) if o is not None]):
            array[:] = 1
        actions[:] = np.nan
    assert all(np.array_equal(a, b) for a, b in zip(first, before, strict=True))
    assert not any(np.shares_memory(a, b) for i, a in enumerate(first) for b in first[:i])
    inside = [value.numpy() for value in (kept.unwrapped.env.sim.qpos, *kept.unwrapped._arrays._last.values())]
    assert not any(np.shares_memory(a, b) for a in first for b in inside)


def rollout(envs, seed: int | None, steps: int = 30) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    arrays = [envs.reset(seed=seed)[0]]
    for _ in range(steps):
        actions = rng.uniform(-1, 1, envs.action_space.shape).astype(np.float32)
        obs, reward, *_ = envs.step(actions)
        arrays += [obs, reward]
    return arrays


def equal(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.slow
def test_equal_seeds_give_equal_episodes_here_and_in_another_environment():
    first, second = vector("Ant"), vector("Ant")
    with_one = rollout(first, 1)
    assert equal(with_one, rollout(second, 1))
    assert equal(with_one, rollout(first, 1))
    assert not equal(with_one, rollout(first, 2))
    assert not equal(with_one, rollout(second, None))
    drawn = vector("Ant")
    without = rollout(drawn, None)
    assert equal(without, rollout(second, drawn.np_random_seed))
    assert equal(rollout(vector("Ant", seed=7), None), rollout(second, 7))


def test_two_environments_match_by_gymnasiums_own_comparison():
    one, two = single("Ant"), single("Ant")
    check_environments_match(one, two, num_steps=20, seed=4, skip_render=True)


def test_a_seed_sets_the_curriculum_back():
    curriculum = CurriculumConfig(level=0.25, params={"reward_per_step": 0.0})
    arrays = ArrayEnv(counting_env(2, 5, task=Winning, curriculum=curriculum), None, 16, 16)
    arrays.reset(seed=1)
    assert arrays.step(np.zeros((2, 1))).reward.tolist() == [0.25, 0.25]
    arrays.env.set_level(1.0)
    arrays.reset()
    assert arrays.step(np.zeros((2, 1))).reward.tolist() == [1.0, 1.0]
    arrays.reset(seed=1)
    assert arrays.step(np.zeros((2, 1))).reward.tolist() == [0.25, 0.25]


def test_some_environments_can_be_reset(counting):
    envs = vector(num_envs=3)
    envs.reset(seed=1)
    envs.step(zeros(envs))
    obs, _ = envs.reset(options={"reset_mask": np.array([True, False, True])})
    assert obs.tolist() == [[3.0, 0.0], [2.0, 1.0], [3.0, 0.0]]
    assert envs.step(zeros(envs))[0].tolist() == [[3.0, 1.0], [2.0, 2.0], [3.0, 1.0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": [1, 2]}, r"seed=\[1, 2\]: of type list. Allowed: one whole number, because one generator"),
        ({"seed": True}, "seed=True"),
        ({"seed": -1}, "seed=-1: out of range. Allowed: 0 to"),
        ({"seed": 2**63}, "out of range"),
        ({"options": {"mask": 1}}, r"options\['mask'\]: unknown. Allowed: reset_mask"),
        ({"options": {"reset_mask": np.ones(3, bool)}}, r"shape \(3,\).*Allowed: shape \(2,\), dtype bool"),
        ({"options": {"reset_mask": np.ones(2)}}, "dtype float64"),
        ({"options": {"reset_mask": np.zeros(2, bool)}}, "0 set values"),
        ({"seed": 1, "options": {"reset_mask": np.ones(2, bool)}}, "seed=1: cannot be had with reset_mask"),
    ],
)
def test_a_reset_that_cannot_be_had_is_refused_by_name(counting, arguments, message):
    with pytest.raises(UserError, match=message):
        vector().reset(**arguments)


@pytest.mark.parametrize(
    ("spec", "actions", "message"),
    [
        (Box(1), np.zeros((2, 2)), r"shape \(2, 2\). Allowed: \(2, 1\)"),
        (Box(1), np.zeros(2), r"shape \(2,\)"),
        (Box(1), np.array([[0.0], [np.nan]]), r"nan at \[1, 0\]. Allowed: finite numbers"),
        (Box(1), np.array([[np.inf], [0.0]]), r"inf at \[0, 0\]"),
        (Box(1), np.zeros((2, 1), bool), "dtype bool. Allowed: real numbers, for example numpy.float32"),
        (Box(1), np.array([["a"], ["b"]]), "dtype <U1"),
        (Box(1), [[0.0], [0.0, 1.0]], "are no array"),
        (Discrete(3), np.array([0, 3]), r"3 at \[1\]. Allowed: 0 to 2"),
        (Discrete(3), np.array([-1, 0]), r"-1 at \[0\]"),
        (Discrete(3), np.array([0.0, 1.0]), "dtype float64. Allowed: whole numbers, for example numpy.int64"),
        (MultiDiscrete((3, 2)), np.array([[2, 1], [1, 2]]), r"2 at \[1, 1\]. Allowed: 0 to 2, 0 to 1"),
    ],
)
def test_actions_that_mean_nothing_are_refused_by_name(counting, spec, actions, message):
    class Acting(Counting):
        pass

    Acting.spec = spec
    counting(length=3, task=Acting)
    envs = vector()
    envs.reset(seed=1)
    with pytest.raises(UserError, match=message):
        envs.step(actions)
    good = np.zeros(envs.action_space.shape, envs.action_space.dtype)
    assert envs.step(good)[0][:, 1].tolist() == [1.0, 1.0]  # nothing has moved
    assert envs.single_action_space.sample().shape == good.shape[1:]


def test_actions_may_be_whole_numbers_and_are_clipped(counting):
    counting(length=9)
    envs = vector()
    envs.reset(seed=1)
    before = envs.env.sim.qvel.clone()
    envs.step(np.array([[7], [-1]]))
    assert (envs.env.sim.qvel - before).flatten().tolist() == pytest.approx([1.0, -1.0])


def test_nothing_can_be_done_before_a_reset_or_after_the_end(counting):
    envs, env = vector(render_mode="rgb_array"), single()
    with pytest.raises(ResetNeeded, match=r"reset\(\) first"):
        envs.step(zeros(envs))
    with pytest.raises(ResetNeeded, match=r"reset\(\) first"):
        env.unwrapped.step(np.zeros(1))
    for each in (envs, env.unwrapped):
        each.reset()
        each.close()
        each.close()
        for call in (each.reset, lambda each=each: each.step(zeros(each))):
            with pytest.raises(ClosedEnvironmentError, match=r"is closed. Make another one"):
                call()
    with pytest.raises(ClosedEnvironmentError, match=r"render"):
        envs.render()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"autoreset_mode": AutoresetMode.NEXT_STEP}, "autoreset_mode=NEXT_STEP: it cannot be had.*Allowed: SAME_STEP"),
        ({"autoreset_mode": "Disabled"}, "autoreset_mode=Disabled"),
        ({"max_episode_steps": 10}, "max_episode_steps=10: the task has its own time limit.*task.episode_length_s"),
        ({"render_mode": "human"}, "render_mode='human': it cannot be had here. Allowed: 'rgb_array'"),
        ({"render_mode": "rgb_arry"}, "render_mode=rgb_arry: unknown. Allowed: rgb_array. Did you mean rgb_array"),
        ({"overrides": "task.decimation=2"}, r"one text. Allowed: a list of them: overrides=\['task"),
        ({"overrides": [3]}, "3: of type int. Allowed: a text"),
        ({"overrides": ["train.learning_rate=1"]}, "environments do not depend on it. Allowed: keys inside task, sim"),
        ({"overrides": ["numEnvs=3"]}, "numEnvs=3: give it as the argument num_envs"),
        ({"overrides": ["task.rewards.forwrd=2"]}, "did you mean|Did you mean"),
        ({"overrides": ["task.episode_length_s=-1"]}, "task.episode_length_s=-1"),
        ({"task": "Cartpole"}, "task='Cartpole': the id livegym/Ant-v0 names its own.*Allowed: livegym/Task-v0"),
        ({"num_envs": 0}, "num_envs=0: out of range. Allowed: a whole number, at least 1"),
        ({"seed": 1.5}, "seed=1.5"),
        ({"width": 0}, "width=0: out of range. Allowed: a whole number of pixels, at least 1"),
        ({"height": 1.5}, "height=1.5"),
        ({"curriculum": True}, "curriculum=True: task Ant has no curriculum. Allowed: False"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(options, message):
    with pytest.raises(UserError, match=message):
        gymnasium.make_vec("livegym/Ant-v0", **{"num_envs": 2, **options})


def test_a_task_without_bodies_is_not_rendered():
    with pytest.raises(UserError, match=r"Territory has no bodies that could be drawn. Allowed: None"):
        vector("Territory", render_mode="rgb_array")
    envs = vector("Territory")
    envs.reset(seed=1)
    with pytest.raises(UserError, match=r"render\(\): the environment was made without render_mode"):
        envs.render()


def test_overrides_are_those_of_the_command_line():
    envs = vector("Cartpole", overrides=["task.episode_length_s=0.05", "sim.threads=1"])
    envs.reset(seed=1)
    steps = [envs.step(zeros(envs)) for _ in range(3)]
    assert steps[2][3].all()  # 0.05 s at 60 Hz
    assert envs.spec.kwargs["overrides"] == ["task.episode_length_s=0.05", "sim.threads=1"]
    again = gymnasium.make_vec(pickle.loads(pickle.dumps(envs.spec)))
    assert (again.num_envs, again.env.max_length) == (2, 3)


@pytest.mark.slow
def test_the_full_task_is_played_unless_the_curriculum_is_asked_for():
    env = livegym.make_env("BlindGrasping", 2, seed=1)
    assert (env.num_envs, env.level, env.curriculum._moves) == (2, 1.0, False)
    env.close()
    env = livegym.make_env("BlindGrasping", 1, curriculum=True)
    assert (env.level, env.curriculum._moves) == (0.0, True)
    env.close()
    env = livegym.make_env("BlindGrasping", 1, "task.curriculum.level=0.5")
    assert env.level == 0.5
    env.close()
    env = livegym.make_env("BlindGrasping", 1, "task.curriculum.episodes=50")
    assert env.level == 1.0
    env.close()


def test_numbers_of_numpy_are_numbers():
    env = livegym.make_env("Cartpole", np.int64(2), seed=np.int32(1))
    assert env.num_envs == 2


def test_the_bare_environment_has_its_seed():
    one, two = (livegym.make_env("Cartpole", 3, seed=4) for _ in range(2))
    assert torch.equal(one.reset()["policy"], two.reset()["policy"])
    with pytest.raises(UserError, match=r"task=Antt.*Did you mean Ant\?"):
        livegym.make_env("Antt")


@pytest.mark.usefixtures("_no_project")
def test_a_task_of_a_project_is_made_by_its_name():
    folder = Path(__file__).parent.parent / "benchmarks" / "gym_project"
    envs = gymnasium.make_vec("livegym/Task-v0", num_envs=2, task="PendulumV1", project_dir=folder)
    assert envs.reset(seed=1)[0].shape == (2, 3)
    assert envs.step(zeros(envs))[1].shape == (2,)
    envs.close()
    with pytest.raises(UserError, match=r"task=PendulumV2: unknown.*Did you mean PendulumV1"):
        gymnasium.make_vec("livegym/Task-v0", num_envs=2, task="PendulumV2", project_dir=folder)
    with pytest.raises(UserError, match=r"projectDir"):
        gymnasium.make_vec("livegym/Task-v0", num_envs=2, task="PendulumV1", project_dir=folder / "nowhere")


@needs_isaacgym
@pytest.mark.usefixtures("_no_project")
def test_a_task_for_isaac_gym_is_made_by_its_name():
    options = {"task": "toys:Swing", "project_dir": TOYS, "seed": 3}
    first, second = (gymnasium.make_vec("livegym/Task-v0", num_envs=4, **options) for _ in range(2))
    assert equal(rollout(first, 5), rollout(second, 5))
    assert first.step(zeros(first))[0].dtype == np.float32


class Sketch:
    """A painter whose picture is the state itself."""

    def __init__(self, model_xml, height, width) -> None:
        pass

    def draw(self, qpos) -> np.ndarray:
        return qpos.copy()

    def close(self) -> None:
        pass


def test_the_picture_after_the_end_is_of_the_last_state_until_the_reset(monkeypatch):
    """The Env below has begun the next episode by then."""
    monkeypatch.setattr(arrays_module, "Painter", Sketch)
    env = single("Cartpole", render_mode="rgb_array", overrides=["task.episode_length_s=0.05"]).unwrapped
    env.reset(seed=1)
    for _ in range(3):
        obs, _, _, truncated, _ = env.step(np.ones(1, np.float32))
        assert np.allclose(env.render(), obs[[0, 2]])  # slider, hinge
    assert truncated
    assert not np.allclose(env.render(), env.env.sim.qpos[0])
    obs, _ = env.reset()
    assert np.allclose(env.render(), obs[[0, 2]])


@pytest.mark.slow
def test_it_renders_what_gymnasium_asks_for():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(single("Cartpole", render_mode="rgb_array").unwrapped)
    envs = vector("Cartpole", render_mode="rgb_array", width=64, height=48)
    envs.reset(seed=1)
    first = envs.render()
    assert [(frame.shape, frame.dtype) for frame in first] == [((48, 64, 3), np.uint8)] * 2
    assert not np.array_equal(*first)
    for _ in range(10):
        envs.step(np.ones((2, 1), np.float32))
    second = envs.render()
    assert not np.array_equal(first[0], second[0])
    assert not np.shares_memory(first[0], second[0])
    envs.close()


def test_every_document_of_a_spec_is_plain():
    assert dataclasses.is_dataclass(gymnasium.spec("livegym/Ant-v0"))
    assert gymnasium.spec("livegym/Ant-v0").to_json()
