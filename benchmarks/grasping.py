"""How surely BlindGrasping is learned: seeds 1 to 5, each trained for 30 minutes, then tested.

Each seed trains alone with `train.py` for `--minutes` of clock time, from the command to the SIGINT that ends it, which
saves. Its last checkpoint then plays 500 episodes with deterministic actions, with a seed that no training run has and
the full randomisation of the yaml, whatever level the run reached. The table shows success and how the other episodes
ended, then the mean and the least of all seeds; and of each run its frames, the level of its curriculum, and the frames
after which 1 % of its episodes succeeded.

    python -m benchmarks.grasping --json grasping.json
    python -m benchmarks.grasping --seeds 2 -- task.curriculum.params.easy_start=0.5
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, arguments, begin, report
from benchmarks.trainings import OURS, read_curve

TASK = "BlindGrasping"
TEST_SEED = 1000
SAVE_WITHIN = 120.0  # s that a training run may take to save after SIGINT
LEARNED = {"frames_to_1_percent": 0.01, "frames_to_50_percent": 0.5}
STOPPED = 130  # exit status of a training run that SIGINT ended


def train(seed: int, folder: Path, minutes: float, toy: bool, overrides: list[str]) -> Path:
    """Trains one seed for so many minutes (two iterations with `toy`); returns its run.

    Raises RuntimeError with the output if that failed.
    """
    short = ["maxIterations=2", "numEnvs=8"] if toy else ["maxIterations=1000000"]
    command = [*OURS, f"task={TASK}", f"seed={seed}", f"runsDir={folder}", *short, *overrides]
    log = folder / "output.txt"
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            process.wait(timeout=None if toy else 60 * minutes)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=SAVE_WITHIN)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode not in (0, STOPPED):
        raise RuntimeError(f"{' '.join(command)} failed ({process.returncode}):\n{log.read_text()[-3000:]}")
    (run,) = (path for path in folder.glob(f"{TASK}_train_*") if path.is_dir())
    return run


def test(run: Path, folder: Path, episodes: int) -> dict[str, Any]:
    """The content of `results.json` after a test of the run's last checkpoint. Raises RuntimeError if it failed."""
    where = [f"checkpoint={run}", f"runsDir={folder}", f"seed={TEST_SEED}"]
    command = [
        sys.executable,
        "train.py",
        "config=test",
        "task.curriculum=null",
        *where,
        f"testGamesNum={episodes}",
        "numEnvs=32",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed ({done.returncode}):\n{(done.stdout + done.stderr)[-3000:]}")
    (results,) = folder.glob(f"{TASK}_test_*/results.json")
    return json.loads(results.read_text())


def figures_of(seed: int, options: Any, overrides: list[str]) -> dict[str, Any]:
    """Train and test one seed."""
    toy = options.effort == "toy"
    episodes = 4 if toy else 100 if options.effort == "quick" else options.episodes
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        folder = Path(name)
        begun = time.time()
        run = train(seed, folder, options.minutes, toy, overrides)
        minutes = (time.time() - begun) / 60
        success, level = read_curve(run, "ends/success"), read_curve(run, "curriculum/level")
        results = test(run, folder, episodes)
    reasons = {reason: count / episodes for reason, count in results["reasons"].items()}
    return {
        "seed": seed,
        "minutes": round(minutes, 1),
        "frames": success.frame[-1] if len(success) else 0,
        "level": level.value[-1] if len(level) else 0.0,
        **{name: first_frame(success, share) for name, share in LEARNED.items()},
        "episodes": episodes,
        "success": results["success_rate"],
        "reasons": reasons,
    }


def first_frame(curve: Any, share: float) -> int | None:
    """The frames after which a curve first reached `share`; None if it never did."""
    return next((f for f, value in zip(curve.frame, curve.value, strict=True) if value >= share), None)


def table(found: list[dict[str, Any]]) -> list[list[str]]:
    """A row for each seed, then the mean and the worst."""
    failures = sorted({reason for result in found for reason in result["reasons"]} - {"success"})
    rows = [["seed", "minutes", "M frames", "level", "first success", "success", *failures]]
    for r in found:
        first = r["frames_to_1_percent"]
        shown = "-" if first is None else f"{first / 1e6:.1f} M"
        ends = [f"{100 * r['reasons'].get(reason, 0):.1f} %" for reason in failures]
        head = [str(r["seed"]), f"{r['minutes']:.0f}", f"{r['frames'] / 1e6:.1f}", f"{r['level']:.1f}"]
        rows.append([*head, shown, f"{100 * r['success']:.1f} %", *ends])
    rates = [100 * r["success"] for r in found]
    summary = ["all", "", "", "", "", f"mean {sum(rates) / len(rates):.1f} %, least {min(rates):.1f} %"]
    return [*rows, [*summary, *[""] * len(failures)]]


def main() -> None:
    """Trains and tests the seeds one after the other, and prints each as soon as it is known."""
    given, overrides = sys.argv[1:], []
    if "--" in given:
        given, overrides = given[: given.index("--")], given[given.index("--") + 1 :]
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--minutes", type=float, default=30.0, help="clock time of each training run")
    parser.add_argument("--episodes", type=int, default=500, help="that each seed is tested with")
    options = parser.parse_args(given)
    begin(options)
    found = []
    for seed in options.seeds[:1] if options.effort == "toy" else options.seeds:
        found.append(figures_of(seed, options, overrides))
        print(json.dumps(found[-1]), flush=True)
    report(options, table(found), {"overrides": overrides, "seeds": found})


if __name__ == "__main__":
    main()
