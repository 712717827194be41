"""config=evaluate_log and config=export_log: the truth lies in the interval, and what cannot be told is not told."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from rich.console import Console

from livegym.cfg.session import Session
from livegym.cfg.typed import as_dict
from livegym.online.chosen_log import seconds_of
from livegym.online.decision_log import DecisionLog
from livegym.online.estimate import Estimate
from livegym.online.evaluate_log import Opinion, evaluate, evaluate_log, opinion_of, verdict
from livegym.online.experience import Experience, Layout, Verdict
from livegym.online.export_log import export_log
from livegym.online.log_files import write_jsonl
from livegym.online.run_log import decisions_of, read_log
from livegym.online.stream_requests import Rewarded
from livegym.rl.policy import Policy
from livegym.rl.spec import PolicySpec, shape_hash, spec_of
from livegym.rundir.checkpoint import CheckpointMeta, read_checkpoint, write_checkpoint
from livegym.rundir.provenance import Provenance
from livegym.rundir.run import create_run
from livegym.serve.running import first_state
from livegym.tasks.build import make_env
from livegym.utils.errors import UserError
from tests.test_live import TRAIN, candidate, live_of, spec_with
from tests.test_service import Setting, Sign, seen

BANDIT = dataclasses.replace(TRAIN, gamma=0.0)


def save_checkpoint(run, spec: PolicySpec, model, version: int, config=None):
    """A checkpoint of a run; returns its file."""
    meta = CheckpointMeta(
        task=spec.task, run_id=run.run_id, version=version, epoch=1, frame=0, score=None, best_score=None,
        shape_hash=shape_hash(spec, model),
    )  # fmt: skip
    return write_checkpoint(run.nn, {"model": model, "spec": spec.to_dict(), "config": config or {}}, meta)


def played(path, bias: float, decisions: int, seed: int) -> Setting:
    """A run in which a policy with the mean action `bias` has acted behind a gate, one observation an episode.

    The gate blocks negative actions, and 0.25 is executed instead. The reward of an action a is -(a - x)^2 + noise,
    with x of the observation.
    """
    rng = np.random.default_rng(seed)
    live = live_of(candidate(1, bias=bias), stochastic=True, num_envs=4, history=3)
    here = Setting(path, live, Sign(), buffer_capacity=100)
    for _ in range(decisions):
        x = float(rng.uniform(0, 1))
        (made,) = here.ask(seen("a", x))
        reward = -((made.executed[0] - x) ** 2) + 0.1 * float(rng.normal())
        here.ask(Rewarded("a", made.decision, reward, done=True))
    here.memory.save()
    return here


def session(config, *typed: str) -> Session:
    c = config(*typed)
    return Session(c, Provenance("", "", list(typed), []))


def said(command, *arguments) -> str:
    out = io.StringIO()
    assert command(*arguments, Console(file=out, width=200)) == 0
    return out.getvalue()


@pytest.mark.slow
def test_the_truth_lies_in_the_interval(tmp_path):
    """A policy logs, another one is estimated from its log, and then acts itself. The gate is between all of them."""
    log = played(tmp_path / "log", 0.2, 3000, seed=1)
    truth = played(tmp_path / "truth", 0.6, 3000, seed=2)
    save_checkpoint(log.run, spec_with(), {"weight": torch.zeros(1)}, 1)
    save_checkpoint(truth.run, spec_with(), {"weight": torch.zeros(1)}, 1)
    data, online = decisions_of(log.run), decisions_of(truth.run)
    assert len(data) == len(online) == 3000  # 100 of them are in the buffer
    state = {"model": dict(candidate(1, bias=0.6).model), "spec": spec_with().to_dict()}
    opinion = opinion_of(state, BANDIT, data, tmp_path)
    assert opinion.log_prob == pytest.approx(
        -0.5 * ((data.proposed[:, 0] - 0.6) ** 2 + math.log(2 * math.pi)), abs=1e-5
    )
    compared = evaluate(data, opinion)
    assert list(compared) == ["reward"]
    got, really = compared["reward"], float(online.reward.mean())
    error = 2 * float(online.reward.std()) / math.sqrt(3000)
    for estimate in (got.self_normalised, got.doubly_robust):
        assert estimate.low - error <= really <= estimate.high + error
        assert estimate.high - estimate.low < 0.2
    assert not got.acting.low <= really <= got.acting.high  # the two policies differ
    assert (got.gain.high < 0) == (really < float(data.reward.mean()))


@pytest.fixture
def cartpole(config, tmp_path):
    """The run, its checkpoint, and how its directory is typed."""
    return cartpole_in(tmp_path, config)


@pytest.fixture(scope="module")
def read_only(config, tmp_path_factory):
    """The same for tests that write nothing into it."""
    return cartpole_in(tmp_path_factory.mktemp("read_only"), config)


def cartpole_in(runs, config):
    """A run of Cartpole with a checkpoint of version 5; 400 decisions of version 3, then 400 of version 5."""
    c = config("config=continuous", "task=Cartpole", f"runsDir={runs}")
    env = make_env(c.task, c.sim, c.physics, 1, 0)
    spec = spec_of(env)
    env.sim.close()
    run = create_run(runs, "Cartpole", "continuous")
    torch.manual_seed(0)
    model = first_state(c, spec, None)["model"]
    file = save_checkpoint(run, spec, model, 5, as_dict(c))
    policy, layout = Policy(spec, c.train, 800, "cpu"), Layout.of(spec.obs_width, spec.action)
    policy.load(model)
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(801, spec.obs_width)).astype(np.float32)
    distribution = policy(torch.from_numpy(obs[:800]))
    action = distribution.sample(torch.Generator().manual_seed(0))
    log_prob, log = distribution.log_prob(action), DecisionLog(run.decisions, layout, 10**7)
    for k in range(800):
        row = action[k].reshape(-1).numpy()
        log.add(Experience(
            stream=f"s{k % 2}", decision=k + 1, obs=obs[k], proposed=row, executed=row, log_prob=float(log_prob[k]),
            executed_log_prob=float(log_prob[k]), confidence=1.0, verdict=Verdict.OFF, expected=math.nan,
            seen=np.zeros(0, np.float32), version=3 if k < 400 else 5, time=1.8e9 + k, clock=float(k),
            reward=1.0, next_obs=obs[k + 1], intervened=k % 100 == 99,
        ))  # fmt: skip
    return run, file, f"runsDir={runs}"


def test_a_policy_on_its_own_decisions_gains_exactly_nothing(cartpole, config, tmp_path):
    """And those that it may have learned from are left out: version 5 is not judged on what version 3 has done."""
    _, file, runs = cartpole
    text = said(
        evaluate_log, session(config, "config=evaluate_log", "checkpoint=latest", runs, f"reportDir={tmp_path}")
    )
    assert f"policy: {file}" in text
    assert "800 decisions of 2 streams" in text
    assert "left out: 8 decisions without reward or propensity, or under human intervention" in text
    assert "left out: 396 decisions that this policy may have learned from" in text
    assert "This policy's critic sees no difference" in text
    report = json.loads((tmp_path / "evaluation.json").read_text())
    assert (report["decisions"], report["unusable"], report["learned_from"]) == (396, 8, 396)
    assert report["version"] == 5
    for quantity in ("reward", "outcome"):  # there is a discount
        gain = report[quantity]["gain"]
        assert (gain["mean"], gain["low"], gain["high"]) == pytest.approx((0.0, 0.0, 0.0), abs=1e-5)
    assert report["outcome"]["doubly_robust"]["effective"] == pytest.approx(396)


def test_its_own_decisions_are_known_by_any_name(cartpole, config, tmp_path):
    """Estimated on what it has learned from, any policy looks better than it is; see docs/logged-decisions.md."""
    run, file, runs = cartpole
    (tmp_path / "link").symlink_to(run.path)
    renamed, alone = tmp_path / "renamed", tmp_path / "alone.pth"
    shutil.copytree(run.path, renamed)
    shutil.copy(file, alone)
    for number, (policy, log) in enumerate([(file, "link"), (file, "renamed"), (alone, "renamed")]):
        typed = ("config=evaluate_log", f"checkpoint={policy}", runs, f"log={tmp_path / log}")
        text = said(evaluate_log, session(config, *typed, f"reportDir={tmp_path / str(number)}"))
        assert "left out: 396 decisions that this policy may have learned from" in text
        assert json.loads((tmp_path / str(number) / "evaluation.json").read_text())["decisions"] == 396
    assert set(read_log(renamed).run.tolist()) == {run.name}
    earlier = dataclasses.replace(read_log(renamed), run_id=np.full(800, ""))  # an export without the id
    write_jsonl(earlier, tmp_path / "earlier.jsonl")
    typed = ("config=evaluate_log", f"checkpoint={file}", runs, f"log={tmp_path / 'earlier.jsonl'}")
    assert "left out: 396 decisions that this policy may have learned from" in said(
        evaluate_log, session(config, *typed)
    )


def test_an_older_version_is_named_if_all_has_been_learned(cartpole, config):
    run, file, runs = cartpole
    state = read_checkpoint(file)
    newer = save_checkpoint(run, PolicySpec.from_dict(state["spec"]), state["model"], 9, state["config"])
    text = said(evaluate_log, session(config, "config=evaluate_log", f"checkpoint={newer}", runs))
    assert f"To use them, evaluate an older version, such as checkpoint={file}, or a policy of another run" in text
    assert "The data do not tell whether this policy is better: there are no decisions" in text


def test_too_few_decisions_tell_nothing(cartpole, config):
    _, _, runs = cartpole
    text = said(
        evaluate_log, session(config, "config=evaluate_log", "checkpoint=latest", runs, f"logFrom={1.8e9 + 780}")
    )
    assert "The data do not tell whether this policy is better: too few effective samples" in text
    assert "unknown" in text


def test_an_export_can_be_read_and_evaluated(cartpole, config, tmp_path):
    run, _, runs = cartpole
    typed = (
        "config=export_log",
        "checkpoint=latest",
        runs,
        "exportFormats=[jsonl]",
        "logStreams=[s1]",
        "logFrom=1800000100",
    )
    text = said(export_log, session(config, *typed))
    assert "350 decisions of 1 stream" in text
    why = "human intervention, a failure of gate or policy, or learn: false"
    assert f"7 decisions excluded from training: {why}" in text
    assert f"written: {run.path / 'export' / 'decisions.jsonl'}" in text
    data = read_log(run.path / "export" / "decisions.jsonl")
    whole = decisions_of(run).of(["s1"]).between(since=1.8e9 + 100)
    assert data.obs.tobytes() == whole.obs.tobytes()
    assert data.log_prob.tobytes() == whole.log_prob.tobytes()
    file = run.path / "export" / "decisions.jsonl"
    typed = ("config=evaluate_log", "checkpoint=latest", runs, f"log={file}", f"reportDir={tmp_path}")
    assert f"log: {file}, 350 decisions of 1 stream" in said(evaluate_log, session(config, *typed))
    assert json.loads((tmp_path / "evaluation.json").read_text())["decisions"] == 196


def test_an_export_clears_what_a_killed_one_has_left_and_names_what_is_older(cartpole, config, tmp_path):
    killed = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left = tmp_path / f".decisions.jsonl.{int(killed.stdout)}.0123abcd.1.tmp"
    other, older = tmp_path / ".other.tmp", tmp_path / "decisions.parquet"
    for file in (left, other, older):
        file.write_text("")
    typed = ("config=export_log", "checkpoint=latest", cartpole[2], "exportFormats=[jsonl]", f"exportDir={tmp_path}")
    text = said(export_log, session(config, *typed))
    assert not left.exists()
    assert other.exists()
    assert f"written: {tmp_path / 'decisions.jsonl'}" in text
    assert f"of an earlier export, and not written now: {older}" in text


@pytest.mark.parametrize(
    ("command", "typed", "says"),
    [
        (export_log, [], "config=export_log needs checkpoint"),
        (evaluate_log, [], "config=evaluate_log needs checkpoint"),
        (export_log, ["checkpoint=latest", "exportFormats=[parqet]"], "Allowed: parquet, jsonl. Did you mean parquet"),
        (export_log, ["checkpoint=latest", "logStreams=[s3]"], "logStreams=s3: there is no such stream in"),
        (export_log, ["checkpoint=latest", "logFrom=tomorrow"], "logFrom=tomorrow: not a time"),
        (export_log, ["checkpoint=latest", "logFrom=nan"], "logFrom=nan: not a time"),
        (export_log, ["checkpoint=latest", "logUntil=5"], "logUntil=5: there are no decisions in this time"),
        (export_log, ["checkpoint=latest", "logFrom=6", "logUntil=5"], "there is no time between them"),
        (export_log, ["checkpoint=latest", f"exportDir={__file__}"], "is not a directory. Choose another place"),
        (evaluate_log, ["checkpoint=latest", "log=nowhere"], "nowhere: no such log"),
    ],
)
def test_what_is_typed_wrong_is_refused(read_only, config, command, typed, says):
    mode = "config=export_log" if command is export_log else "config=evaluate_log"
    with pytest.raises(UserError, match=says):
        said(command, session(config, mode, read_only[2], *typed))


def test_a_policy_for_other_observations_is_refused(tmp_path):
    data = decisions_of_counting(tmp_path)
    state = {"model": candidate(1).model, "spec": spec_with(observations=(("step", 3),)).to_dict()}
    with pytest.raises(UserError, match="observations of 3 numbers and continuous actions of 1, the log has 2"):
        opinion_of(state, BANDIT, data, tmp_path)
    with pytest.raises(UserError, match="does not say what its observations and actions are"):
        opinion_of({"model": candidate(1).model}, BANDIT, data, tmp_path)


def decisions_of_counting(path):
    here = played(path, 0.5, 5, seed=0)
    save_checkpoint(here.run, spec_with(), {"weight": torch.zeros(1)}, 1)
    return decisions_of(here.run)


def test_with_a_discount_the_critic_values_what_comes_after(tmp_path):
    """Reward 1 and a next value of 2 at discount 0.5: an outcome of 2, or of 1 where the episode ended. By hand."""
    data = decisions_of_counting(tmp_path)
    data = dataclasses.replace(data, reward=np.ones(5, np.float32), done=np.array([True] + [False] * 4))
    same = data.log_prob.astype(np.float64)
    got = evaluate(data, Opinion(same, np.full(5, 9.0), np.full(5, 2.0), 0.5))
    assert got["reward"].acting.mean == 1.0
    assert got["outcome"].acting.mean == pytest.approx((1.0 + 4 * 2.0) / 5)
    assert got["reward"].doubly_robust is None  # the critic does not know the reward of one decision
    assert got["outcome"].doubly_robust.mean == pytest.approx(1.8)
    assert list(evaluate(data, Opinion(same, None, None, 0.0))) == ["reward"]


@pytest.mark.parametrize(
    ("low", "high", "unknown", "says"),
    [
        (0.1, 0.2, "", "would have earned more"),
        (-0.2, -0.1, "", "would have earned less"),
        (-0.1, 0.1, "", "show no difference"),
        (-math.inf, math.inf, "too few", "do not tell whether this policy is better: too few"),
    ],
)
def test_the_verdict_is_what_the_interval_says(low, high, unknown, says):
    assert says in verdict(Estimate((low + high) / 2, low, high, 100, 100.0, 100, unknown=unknown), False)


@pytest.mark.parametrize(("low", "high", "says"), [(0.1, 0.2, "better"), (-0.2, -0.1, "worse"), (-0.1, 0.1, "no")])
def test_what_a_critic_values_is_not_called_earned(low, high, says):
    """A version with returns near 20 gains by its own critic, on decisions of versions with returns near 200."""
    text = verdict(Estimate((low + high) / 2, low, high, 100, 100.0, 100), True)
    assert "critic" in text
    assert says in text
    assert "earned" not in text


def test_times_are_local_or_seconds():
    assert seconds_of("logFrom", None) is None
    assert seconds_of("logFrom", "1800000000.5") == 1800000000.5
    assert seconds_of("logFrom", "2026-01-02T12:00") - seconds_of("logFrom", "2026-01-02") == 12 * 3600
