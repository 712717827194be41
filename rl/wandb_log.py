"""An observer that logs a training run to Weights & Biases: wandb=true.

    run_training(config, provenance, stop, parent, [WandbObserver(config, group=None)])

The curves have the tags of TensorBoard, and their step is frames. The W&B run has the name and the id of the run, so a
resumed run continues its curves. W&B's own files are in the run's `wandb/`; in offline mode, `wandb sync` sends them.
What W&B would collect by itself (command line, code, console) is off: the configuration is sent without secrets, and
the rest is in the run's directory.
"""

from __future__ import annotations

import logging
from typing import Any

from livegym.cfg.validate import check_wandb
from livegym.rl.curves import scalars
from livegym.rl.learner import Iteration, Learner
from livegym.rl.spec import PolicySpec
from livegym.rundir.run import Run
from livegym.schema.comparing import WandbKeys

log = logging.getLogger(__name__)


class WandbObserver:
    """Sends the curves of one training run. If W&B fails, it warns once, and the training run continues without it."""

    def __init__(self, keys: WandbKeys, sweep: str | None = None) -> None:
        """`sweep`: the name of the sweep to which the run belongs. Raises UserError, as `check_wandb` does."""
        check_wandb(keys)
        self._keys = keys
        self._group = keys.wandbGroup or sweep
        self._run: Any = None

    def highest_version(self, run: Run) -> int:
        """0: nothing is published here."""
        return 0

    def begin(self, run: Run, learner: Learner, spec: PolicySpec, config: dict[str, Any]) -> None:
        """Starts the W&B run, or continues that of a resumed run."""
        import wandb

        keys = self._keys
        mode: Any = keys.wandbMode  # one of the literals that W&B's types name
        settings = wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True, x_disable_meta=True)
        try:
            self._run = wandb.init(
                project=keys.wandbProject,
                entity=keys.wandbEntity,
                group=self._group,
                mode=mode,
                name=run.name,
                id=run.run_id,
                resume="allow",
                dir=str(run.path),
                config=config,
                settings=settings,
                reinit="finish_previous",
            )
        except (wandb.Error, OSError, ValueError) as error:
            self._give_up(error)
            return
        later = f"offline; to send it: wandb sync {self._run.dir.removesuffix('/files')}"
        place = later if keys.wandbMode == "offline" else self._run.url
        log.info("W&B: %s", place)

    def after_iteration(self, it: Iteration) -> None:
        """Logs the iteration's scalars at its frame."""
        if self._run is not None:
            self._guarded(lambda: self._run.log(scalars(it), step=it.frame))

    def end(self, complete: bool) -> None:
        """Sends the rest and ends the W&B run; an incomplete one counts as failed there."""
        if self._run is not None:
            self._guarded(lambda: self._run.finish(exit_code=0 if complete else 1))

    def _guarded(self, act: Any) -> None:
        import wandb

        try:
            act()
        except (wandb.Error, OSError, ValueError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._run = None
        log.warning("W&B is not available (%s); the run continues without it.", error)
