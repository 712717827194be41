"""`config=evaluate_log`: estimates from logged decisions what another policy would have earned, with an interval.

    python train.py config=evaluate_log checkpoint=runs/<run>/nn/<file>.pth log=runs/<run>
    python train.py config=evaluate_log checkpoint=latest reportDir=evaluation     # also writes evaluation.json

`online/estimate.py` explains the estimators, and what they assume. Two quantities are estimated:

- **reward**: of one decision. If the discount is 0, that is the value of the policy.
- **outcome**, if the discount is not 0: reward + discount x the critic's value of the next observation. It is what a
  decision is worth if this policy makes it, once, and what comes after is as the policy's critic expects. It says
  whether single decisions become better, which is the first-order part of a policy's gain (Kakade and Langford 2002,
  "Approximately Optimal Approximate Reinforcement Learning"). It is as biased as the critic, and is no estimate of the
  return: whole episodes would need products of ratios, whose effective sample size vanishes within a few dozen
  decisions (Precup, Sutton and Singh 2000).

Doubly robust estimates use the critic's value of the observation as the model, the same for every action. If the critic
has learned from the decisions in the log, it has seen their rewards, and the interval is a little too narrow. The
self-normalised estimate of the reward does not depend on the critic.

Decisions that the policy may have learned from are left out: on those, it seems better than it is. They are the ones of
its own run, whatever it is called now, that were made by older versions than itself.

Decisions are grouped in blocks of `BLOCK` consecutive ones of a stream, because neighbours resemble each other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.table import Table

from livegym.cfg.session import Session
from livegym.online.chosen_log import chosen, extent_of
from livegym.online.estimate import CLIP, Estimate, blocks, difference, doubly_robust, mean_of, self_normalised
from livegym.online.judge import BLOCK
from livegym.online.logged import LoggedDecisions
from livegym.online.run_log import read_log
from livegym.rl.algorithm import ActorCriticNetwork, algorithm_of
from livegym.rl.policy import Policy
from livegym.rl.spec import PolicySpec, shape_difference, shapes_of
from livegym.rundir.checkpoint import CheckpointMeta, list_checkpoints, meta_of
from livegym.rundir.run import open_run
from livegym.rundir.select import read_selected
from livegym.schema.train import TrainConfig
from livegym.tasks.base import Box
from livegym.utils.errors import UserError
from livegym.utils.files import atomic_write_text, strict_json
from livegym.utils.words import count

CHUNK = 4096  # decisions in one forward pass
REPORT = "evaluation.json"


@dataclass(frozen=True)
class Opinion:
    """Log-probabilities and values that a policy gives to logged decisions."""

    log_prob: np.ndarray  # (n,) float64, of the proposed actions
    value: np.ndarray | None  # (n,) the critic's values of the observations; None without a critic
    next_value: np.ndarray | None  # (n,) of the next observations
    discount: float


@dataclass(frozen=True)
class Compared:
    """One quantity: what the policies that acted have earned of it, and what another one would have."""

    acting: Estimate
    self_normalised: Estimate
    doubly_robust: Estimate | None
    gain: Estimate  # of the doubly robust estimate if there is one, otherwise of the self-normalised one

    def to_plain(self) -> dict[str, Any]:
        """Return plain values for strict JSON."""
        robust = self.doubly_robust
        return {
            "acting": self.acting.to_plain(),
            "self_normalised": self.self_normalised.to_plain(),
            "doubly_robust": None if robust is None else robust.to_plain(),
            "gain": self.gain.to_plain(),
        }


def evaluate_log(session: Session, console: Console) -> int:
    """Print the estimates; return the exit status. Raises UserError if policy or log cannot be used."""
    config = session.config
    if config.checkpoint is None:
        raise UserError("config=evaluate_log needs checkpoint=..., the policy to evaluate. Type checkpoint=latest")
    selection, state = read_selected(config.checkpoint, Path(config.runsDir), session.task)
    source = selection.run if config.log is None else Path(os.path.expanduser(config.log))
    if source is None:
        raise UserError(f"checkpoint={config.checkpoint} is not in a run. Name the log: log=<continuous run or file>")
    data = chosen(read_log(source), config, source)
    meta = meta_of(state)
    version = meta.version if meta is not None else None
    known = _learned_from(data, selection.run, meta)
    propensity = np.isfinite(data.log_prob) & (data.held | np.isfinite(data.executed_log_prob))
    usable = data.complete & ~data.intervened & propensity
    fresh = data[usable & ~known]
    train = session.config_for(state.get("config")).train
    compared = evaluate(fresh, opinion_of(state, train, fresh, selection.file))
    unusable, learned = int((~usable).sum()), int((usable & known).sum())
    report = {
        "policy": str(selection.file),
        "version": version,
        "log": str(source),
        "decisions": len(fresh),
        "unusable": unusable,
        "learned_from": learned,
        **{name: quantity.to_plain() for name, quantity in compared.items()},
    }
    lines = [f"policy: {selection.file}", f"log: {source}, {extent_of(data)}"]
    if unusable:
        why = "without reward or propensity, or under human intervention"
        lines.append(f"left out: {count(unusable, 'decision')} {why}")
    if learned:
        older = _older(selection.run, version)
        such = "" if older is None else f", such as checkpoint={older}"
        lines.append(
            f"left out: {count(learned, 'decision')} that this policy may have learned from. To use them, evaluate an "
            f"older version{such}, or a policy of another run"
        )
    _print(console, lines, compared)
    if config.reportDir is not None:
        _write(Path(os.path.expanduser(config.reportDir)) / REPORT, report)
    return 0


def opinion_of(state: Mapping[str, Any], train: TrainConfig, data: LoggedDecisions, file: Path) -> Opinion:
    """Return what the policy of a checkpoint makes of decisions. Raises UserError if it is not for such decisions."""
    if not state.get("spec"):
        raise UserError(f"{file}: it does not say what its observations and actions are. Use a checkpoint of livegym")
    spec = PolicySpec.from_dict(state["spec"])
    kind = "continuous" if isinstance(spec.action, Box) else "discrete"
    wanted, found = (spec.obs_width, spec.action.width), (data.obs.shape[1], data.proposed.shape[1])
    logged = "continuous" if data.proposed.dtype.kind == "f" else "discrete"
    if len(data) and ((wanted, kind) != (found, logged)):
        raise UserError(
            f"{file} does not fit the log: it has observations of {wanted[0]} numbers and {kind} actions of "
            f"{wanted[1]}, the log has {found[0]} and {logged} ones of {found[1]}. Use a policy of the log's task"
        )
    obs, next_obs, action = (torch.from_numpy(a) for a in (data.obs, data.next_obs, data.chosen[0]))
    try:
        network = algorithm_of(train).actor_critic(spec, train)
    except UserError:  # no critic that continuous training could use; the policy can be evaluated all the same
        return Opinion(_without_critic(state, train, spec, obs, action), None, None, 0.0)
    differs = shape_difference(shapes_of(network.module.state_dict()), shapes_of(state["model"]))
    if differs is not None:
        raise UserError(f"{file} does not fit: {differs}")
    network.module.load_state_dict(dict(state["model"]), strict=True)
    network.module.eval()
    log_prob, value = _thoughts(network, obs, action)
    _, next_value = _thoughts(network, next_obs, action)
    return Opinion(log_prob, value, next_value, network.discount)


@torch.no_grad()
def _thoughts(network: ActorCriticNetwork, obs: torch.Tensor, action: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return log-probabilities (n,) of actions, and values (n,) of observations."""
    log_probs, values = [np.zeros(0)], [np.zeros(0)]
    for start in range(0, len(obs), CHUNK):
        distribution, output = network.think(obs[start : start + CHUNK])
        log_probs.append(distribution.log_prob(action[start : start + CHUNK]).double().numpy())
        values.append(network.value_of(output).double().numpy())
    return np.concatenate(log_probs), np.concatenate(values)


def _without_critic(
    state: Mapping[str, Any], train: TrainConfig, spec: PolicySpec, obs: torch.Tensor, action: torch.Tensor
) -> np.ndarray:
    policy = Policy(spec, train, max(1, len(obs)), "cpu")
    policy.load(state["model"])
    if policy.first_memory():
        raise UserError("a recurrent policy cannot be evaluated: a single decision does not contain its memory")
    return policy(obs).log_prob(action).double().numpy() if len(obs) else np.zeros(0)


def evaluate(data: LoggedDecisions, opinion: Opinion) -> dict[str, Compared]:
    """Return the estimates of `reward`, and of `outcome` if there is a discount.

    `data`: complete decisions without intervention, in order of time.
    """
    groups = blocks(data.stream, BLOCK)
    log_ratios = np.maximum(opinion.log_prob, -np.finfo(np.float64).max) - data.chosen[1]
    reward = data.reward.astype(np.float64)
    if opinion.value is None or opinion.next_value is None:
        return {"reward": compare(reward, log_ratios, groups, None)}
    if opinion.discount == 0.0:
        return {"reward": compare(reward, log_ratios, groups, opinion.value)}
    outcome = reward + opinion.discount * opinion.next_value * ~data.done
    return {
        "reward": compare(reward, log_ratios, groups, None),
        "outcome": compare(outcome, log_ratios, groups, opinion.value),
    }


def compare(values: np.ndarray, log_ratios: np.ndarray, groups: np.ndarray, model: np.ndarray | None) -> Compared:
    """Return the estimates of one quantity, `values` (n,). `model`: (n,) its mean in each state, if known."""
    acting = mean_of(values, groups=groups)
    plain = self_normalised(values, log_ratios, groups=groups)
    robust = None if model is None else doubly_robust(values, log_ratios, model, model, groups=groups)
    return Compared(acting, plain, robust, difference(plain if robust is None else robust, acting))


def _learned_from(data: LoggedDecisions, run: Path | None, meta: CheckpointMeta | None) -> np.ndarray:
    """Return (n,) which decisions a policy may have learned from: of older versions of its run, under any name.

    `run`: the directory that the policy's file is in; None if it was copied out of its run. `meta`: what the file says.
    """
    if meta is None:
        return np.zeros(len(data), bool)
    own = (data.run_id == meta.run_id) & (data.run_id != "")
    if run is not None:  # exports of older versions do not have the id
        own |= data.run == open_run(run).first_name
    return own & (data.version < meta.version)


def _older(run: Path | None, version: int | None) -> Path | None:
    """Return the oldest checkpoint of a run if it is older than `version`."""
    entries = list_checkpoints(run) if run is not None and version is not None else []
    known = [entry for entry in entries if 0 <= entry.version < (version or 0)]
    return known[-1].path if known else None


def _print(console: Console, lines: list[str], compared: Mapping[str, Compared]) -> None:
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0))
    table.add_column("mean of a decision")
    for name in ("estimate", "95 % interval", "effective"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, quantity in compared.items():
        rows = {"the policies that acted": quantity.acting, "this policy": quantity.self_normalised}
        if quantity.doubly_robust is not None:
            rows["this policy, doubly robust"] = quantity.doubly_robust
        rows["gain"] = quantity.gain
        for label, estimate in rows.items():
            interval = f"{estimate.low:.4g} to {estimate.high:.4g}" if estimate.known else "unknown"
            mean = f"{estimate.mean:.4g}" if estimate.samples else "unknown"
            table.add_row(f"{name}, {label}", mean, interval, f"{estimate.effective:,.0f}")
    console.print(table)
    most = compared.get("outcome", compared["reward"])
    clipped = most.self_normalised.clipped
    if clipped:
        share = f"{100 * clipped:.1f} %" if clipped >= 0.0005 else "fewer than 0.1 %"
        text = f"{share} of the ratios were clipped at {CLIP:g}: the estimates lean towards what acted."
        console.print(text, soft_wrap=True, highlight=False, markup=False)
    console.print(verdict(most.gain, "outcome" in compared), soft_wrap=True, highlight=False, markup=False)


def verdict(gain: Estimate, discounted: bool) -> str:
    """Return in words what the data say about the gain; `discounted`: it is that of `outcome`, not of `reward`.

    A policy learns what its own critic values, so a bad policy too may gain by it. Only a reward is earned.
    """
    if not gain.known:
        return f"The data do not tell whether this policy is better: {gain.unknown}."
    if discounted:
        if gain.low <= 0 <= gain.high:
            return "This policy's critic sees no difference between its single decisions and those of the log."
        return (
            f"By this policy's own critic, its single decisions are {'better' if gain.low > 0 else 'worse'} than those "
            "of the log. That does not tell what it would earn in an episode."
        )
    if gain.low > 0:
        return "This policy would have earned more than those that acted."
    if gain.high < 0:
        return "This policy would have earned less than those that acted."
    return "The data show no difference between this policy and those that acted."


def _write(file: Path, report: dict[str, Any]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write_text(file, strict_json(report))
    except OSError as error:
        raise UserError(
            f"{file.absolute()} cannot be written ({error.strerror or error}). Choose another directory: reportDir=..."
        ) from error
