"""Draws the action of one joint around a swap, for swap=now, swap=blend and swap=reset, in the same episode of Ant.

python -m benchmarks.plot_swaps runs/Ant_train_.../nn/Ant_v1_ep1.pth runs/Ant_train_.../nn/Ant_v130_ep130.pth out.png
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.harness import TOY
from livegym.cfg.compose import compose
from livegym.cfg.saved import with_run_config
from livegym.cfg.typed import to_typed
from livegym.live.swap import LivePolicy
from livegym.play.world import build_world
from livegym.rl import training
from livegym.rundir.checkpoint import read_checkpoint
from livegym.rundir.provenance import Provenance
from livegym.utils.signals import StopFlag
from livegym.weights.candidate import Candidate
from livegym.weights.sources import candidate_of

# control steps: from the swap to the episode's end; shown before and after the swap
BEFORE = 25
SHOWN = 20
AFTER = 60
BLEND_SECONDS = 1.5


def actions(old: Candidate, new: Candidate, rule: str) -> tuple[list[float], float]:
    """The first joint's actions in environment 0, from SHOWN steps before the swap; and the control step in s."""
    session = to_typed(compose(["config=test", f"swap={rule}", f"blendSeconds={BLEND_SECONDS}", "numEnvs=2"]))
    world = build_world(with_run_config(session, old.config, None, []), old)
    live, env = world.actor, world.env
    assert isinstance(live, LivePolicy)
    at, recorded = env.max_length - BEFORE, []
    obs = env.reset()["policy"]
    for step in range(at + AFTER):
        if step == at:
            live.prepare(new)
        live.adopt()
        action = live.act(obs)
        recorded.append(float(action[0, 0].clamp(-1, 1)))
        made = env.step(action)
        if made.ended is not None:
            live.forget(made.ended.env_ids)
        obs = made.obs["policy"]
    env.sim.close()
    return recorded[at - SHOWN :], env.sim.control_dt


def main() -> None:
    """Writes a PNG. Needs matplotlib (extra `bench`)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("new", type=Path, nargs="?")
    parser.add_argument("picture", type=Path, nargs="?")
    parser.add_argument("--toy", action="store_true", help="draw a tiny training run to a temporary file, as a check")
    options = parser.parse_args()
    if options.toy:
        print(TOY)
        with tempfile.TemporaryDirectory(prefix="livegym-bench-") as folder:
            draw(*_trained(Path(folder)), Path(folder) / "picture.png")
        return
    if None in (options.old, options.new, options.picture):
        parser.error("two checkpoints and a picture are required")
    draw(options.old, options.new, options.picture)


def _trained(folder: Path) -> tuple[Path, Path]:
    """The first and the last checkpoint of a training run of two iterations."""
    given = ["config=train_headless", "task=Ant", "numEnvs=2", "maxIterations=2", "saveFrequency=1", "seed=1"]
    config = to_typed(compose([*given, "train.num_minibatches=1", f"runsDir={folder}"]))
    with StopFlag() as stop:
        training.run_training(config, Provenance("", "", [], []), stop, None)
    (run,) = (path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    last, *_, first = sorted(run.glob("nn/Ant_v*.pth"), reverse=True)
    return first, last


def draw(old_file: Path, new_file: Path, picture: Path) -> None:
    """Draws a swap from one checkpoint to the other, for each rule."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    old, new = (candidate_of(file, read_checkpoint(file), 0.0) for file in (old_file, new_file))
    figure, panels = pyplot.subplots(3, 1, figsize=(8, 5.4), dpi=150, sharex=True)
    for rule, axes in zip(("now", "blend", "reset"), panels, strict=True):
        seen, dt = actions(old, new, rule)
        time = [dt * (k - SHOWN) for k in range(len(seen))]
        axes.step(time, seen, where="post", color="#1f4e8c", linewidth=1.4)
        axes.axvline(0.0, color="#c23b22", linewidth=1)
        axes.axvline(dt * BEFORE, color="#777777", linewidth=1, linestyle=":")
        if rule == "blend":
            axes.axvspan(0.0, BLEND_SECONDS, color="#c23b22", alpha=0.1, linewidth=0)
        axes.set_ylim(-1.1, 1.1)
        axes.set_ylabel(f"swap={rule}")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_title(
        f"Ant's first joint, version {old.version} to {new.version}: swap (red), next episode (dotted)", loc="left"
    )
    panels[-1].set_xlabel("s of simulated time since the swap")
    figure.tight_layout()
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture)


if __name__ == "__main__":
    main()
