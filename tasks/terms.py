"""Named terms: a task's Python code and its yaml must have the same names, which is checked in both directions.

A name that only one side has is an error when the environment is built; the error shows the other side's names. Shapes
are measured and checked then, too, so that a term of the wrong shape is reported with its name, and not as a
broadcasting error somewhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from livegym.utils.errors import UserError, did_you_mean

TIME_LIMIT = "time_limit"
UNSTABLE = "unstable"
POLICY = "policy"  # the group that the policy sees


class NameMismatch(UserError):
    """A name of `what` (a reward term, ...) that only one side has: the task's code, or its configuration.

    `in_code` and `in_config` are all names of each side; `file` is the yaml that the configuration is from.
    """

    def __init__(
        self, what: str, name: str, in_code: Sequence[str], in_config: Sequence[str], file: str = "the yaml"
    ) -> None:
        self.what = what
        self.name = name
        self.in_code = in_code
        self.in_config = in_config
        super().__init__(self._text(file))

    def _text(self, file: str) -> str:
        if self.name not in self.in_code:
            return (
                f"{self.what} {self.name!r} is in {file}, but not in the task. "
                f"Allowed: {', '.join(self.in_code) or 'none'}.{did_you_mean(self.name, self.in_code)}"
            )
        return (
            f"{self.what} {self.name!r} is in the task, but not in {file}. "
            f"It has: {', '.join(self.in_config) or 'none'}. Name it there: {_how_to_name(self.what)}"
        )

    def in_file(self, file: object) -> NameMismatch:
        """The same mismatch with the name of the yaml file."""
        return NameMismatch(self.what, self.name, self.in_code, self.in_config, str(file))


def check_names(what: str, in_python: Iterable[str], in_yaml: Iterable[str]) -> None:
    """Raises NameMismatch, a UserError, if the task's code and its configuration do not have the same names."""
    python, yaml = list(in_python), list(in_yaml)
    for name in yaml:
        if name not in python:
            raise NameMismatch(what, name, python, yaml)
    for name in python:
        if name not in yaml:
            raise NameMismatch(what, name, python, yaml)


def _how_to_name(what: str) -> str:
    return {
        "observation block": "in observations.policy, observations.privileged or observations.unused.",
        "reward term": "with its weight under rewards; 0 logs it without counting it.",
        "termination reason": "with true or false under terminations.",
    }.get(what, "or remove it from the task.")


def check_shape(what: str, name: str, value: Tensor, num_envs: int, dims: int) -> None:
    """Raises UserError unless `value` is (N,) for dims=1 or (N, width) for dims=2."""
    if value.dim() != dims or value.shape[0] != num_envs:
        wanted = f"({num_envs},)" if dims == 1 else f"({num_envs}, width)"
        raise UserError(f"{what} {name!r} has shape {tuple(value.shape)}; it must be {wanted}.")


def check_like(what: str, value: Tensor, shape: tuple[int, ...]) -> None:
    """Raises UserError if a task returns a tensor of another shape, which would be broadcast, or would fail later."""
    if tuple(value.shape) != shape:
        raise UserError(f"{what} has shape {tuple(value.shape)}; it must be {shape}.")


@dataclass(frozen=True)
class ObservationLayout:
    """The place of each block in the groups.

    widths: block -> width, in the task's order; groups: group -> block names, in the order of concatenation;
    history: block -> number of its last values that the policy sees, 1 if it is not named.
    """

    widths: dict[str, int]
    groups: dict[str, tuple[str, ...]]
    history: dict[str, int]

    @classmethod
    def measure(
        cls,
        blocks: Mapping[str, Tensor],
        groups: Mapping[str, Sequence[str]],
        num_envs: int,
        history: Mapping[str, int],
    ) -> ObservationLayout:
        """Check the task's blocks against the yaml's groups, and measure their widths."""
        named = [name for names in groups.values() for name in names]
        check_names("observation block", blocks, dict.fromkeys(named))
        for group, names in groups.items():
            twice = {n for n in names if list(names).count(n) > 1}
            if twice:
                raise UserError(f"observations.{group} names {', '.join(sorted(twice))} twice; name each block once.")
        if not groups.get("policy"):
            raise UserError(f"observations.policy is empty; name at least one of: {', '.join(blocks)}.")
        for name, value in blocks.items():
            check_shape("observation block", name, value, num_envs, dims=2)
        widths = {name: value.shape[1] for name, value in blocks.items()}
        observed = {g: tuple(names) for g, names in groups.items() if names and g != "unused"}
        return cls(widths, observed, dict(history))

    def width(self, group: str) -> int:
        """Columns of a group; 0 if it has no blocks."""
        return sum(width for _, width in self.describe(group))

    def describe(self, group: str) -> list[tuple[str, int]]:
        """(block, width) of a group, in order; a policy's shape hash is made of them."""
        repeated = self.history if group == POLICY else {}
        return [(name, self.widths[name] * repeated.get(name, 1)) for name in self.groups.get(group, ())]


class RewardTerms:
    """Sums named reward terms with the yaml's weights."""

    def __init__(self, sample: Mapping[str, Tensor], weights: Mapping[str, float], num_envs: int) -> None:
        """`sample` is one evaluation of the task's terms. Raises UserError for names or shapes that do not fit."""
        check_names("reward term", sample, weights)
        for name, value in sample.items():
            check_shape("reward term", name, value, num_envs, dims=1)
        self.names = tuple(sample)
        device = next(iter(sample.values())).device if sample else None
        self.weights = torch.tensor([float(weights[n]) for n in self.names], dtype=torch.float32, device=device)

    def weighted(self, terms: Mapping[str, Tensor]) -> Tensor:
        """Unweighted terms, each (N,) -> weighted (N, T), in the order of `names`."""
        return torch.stack([terms[name] for name in self.names], dim=1) * self.weights


class TerminationReasons:
    """The named reasons that end an episode.

    `names` has `unstable`, the active reasons in the yaml's order, then `time_limit`; a reason's index is its place
    there. If several hold at once, the first one counts: what a task reads from a non-finite state means nothing, and a
    failure in the last step counts as a failure.
    """

    def __init__(self, sample: Mapping[str, Tensor], active: Mapping[str, bool], num_envs: int) -> None:
        """`sample` is one evaluation of the task's reasons. Raises UserError for names or shapes that do not fit."""
        check_names("termination reason", sample, active)
        for name in (UNSTABLE, TIME_LIMIT):
            if name in sample:
                raise UserError(f"termination reason {name!r} is reserved for the environment. Rename the task's.")
        for name, value in sample.items():
            check_shape("termination reason", name, value, num_envs, dims=1)
            if value.dtype != torch.bool:
                raise UserError(f"termination reason {name!r} has dtype {value.dtype}; it must be torch.bool.")
        self.active = tuple(name for name, on in active.items() if on)
        self.names = (UNSTABLE, *self.active, TIME_LIMIT)

    def table(self, reasons: Mapping[str, Tensor], unstable: Tensor, at_limit: Tensor) -> Tensor:
        """Reasons (N,) bool each -> (N, R) bool in the order of `names`."""
        return torch.stack([unstable, *(reasons[name] for name in self.active), at_limit], dim=1)
