"""Draws the return of each episode of a test that follows a training run, over the version at the episode's start.

python -m benchmarks.plot_by_version runs/Ant_test_.../results.json docs/images/ant-by-version.png
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.harness import TOY

MADE_UP = {
    "task": "Cartpole",
    "episodes": [{"versions": [k // 3], "return": float(k)} for k in range(30)],
    "swaps": [{"accepted": True}],
}


def main() -> None:
    """Reads results.json and writes a PNG. Needs matplotlib (extra `bench`)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("picture", type=Path, nargs="?")
    parser.add_argument("--toy", action="store_true", help="draw made-up results to a temporary file, as a check")
    parser.add_argument("--window", type=int, default=20, help="episodes in the moving mean")
    options = parser.parse_args()
    if options.toy:
        print(TOY)
        with tempfile.TemporaryDirectory(prefix="livegym-bench-") as folder:
            draw(MADE_UP, Path(folder) / "picture.png", options.window)
        return
    if options.results is None or options.picture is None:
        parser.error("a results.json and a picture are required")
    draw(json.loads(options.results.read_text()), options.picture, options.window)


def draw(results: dict, picture: Path, window: int) -> None:
    """Draws each episode as a dot, and the moving mean of `window` episodes as a line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    episodes = [e for e in results["episodes"] if isinstance(e["versions"][0], int)]
    episodes.sort(key=lambda e: e["versions"][0])  # results.json lists them in the order of their ends
    versions = [e["versions"][0] for e in episodes]
    returns = [e["return"] for e in episodes]
    means = [sum(part) / len(part) for i in range(len(returns)) if (part := returns[max(0, i - window + 1) : i + 1])]
    figure, axes = pyplot.subplots(figsize=(8, 3.6), dpi=150)
    axes.scatter(versions, returns, s=8, color="#9db8d9", label="one episode")
    axes.plot(versions, means, color="#1f4e8c", linewidth=2, label=f"mean of {window} episodes")
    swaps = sum(s["accepted"] for s in results["swaps"])
    axes.set_title(f"{results['task']}: one running test, {swaps} swaps, nothing reset", loc="left")
    axes.set_xlabel("policy version at the start of the episode")
    axes.set_ylabel("return")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    figure.tight_layout()
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture)


if __name__ == "__main__":
    main()
