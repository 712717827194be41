"""Keys of a test that a training run passes on to its viewers: how new weights take over, history, pool and guard."""

from __future__ import annotations

from pathlib import Path

import pytest

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.cfg.validate import unused_keys
from livegym.rundir.run import Run
from livegym.utils.errors import UserError
from livegym.viewers.processes import ViewerProcesses, configs_of

KEYS = {
    "swap": "blend", "blendSeconds": "2.5", "minSwapInterval": "3.0", "historySize": "5", "poolEnvs": "2",
    "swapGuard": "20", "swapGuardMargin": "1.5", "swapGuardConfidence": "0.8", "stochastic": "true",
}  # fmt: skip


@pytest.mark.parametrize("shown", ["watch=true", "trainVideoEvery=5", "videoRecord=true"])
def test_they_have_an_effect_with_a_viewer_and_reach_it(shown):
    typed = [f"{key}={value}" for key, value in KEYS.items()]
    cfg = compose(["task=Cartpole", shown, *typed])
    assert unused_keys(cfg, lambda path: path in KEYS) == []
    (viewer,) = configs_of(to_typed(cfg), Run(Path("runs/x"), "Cartpole", "train", "id")).values()
    found = {key: str(getattr(viewer, key)).lower() for key in KEYS}
    assert found == KEYS


def test_without_a_viewer_they_have_none_and_the_line_says_where_they_belong():
    cfg = compose(["task=Cartpole", "swap=reset"])
    (line,) = unused_keys(cfg, lambda path: path == "swap")
    assert line.startswith("swap=reset has no effect in mode=train: it belongs to mode=test or mode=continuous")
    assert line.endswith(", or to a training run with watch=true or viewer=true")


def test_a_pool_that_leaves_no_environment_for_the_newest_version_is_refused_at_the_start():
    config = to_typed(compose(["task=Cartpole", "watch=true", "poolEnvs=4"]))
    with pytest.raises(UserError, match=r"poolEnvs=4: .*Allowed: 0 to 3"):
        ViewerProcesses(config)
