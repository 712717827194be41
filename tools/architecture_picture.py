"""Writes docs/images/architecture.svg: the packages, the lowest at the bottom, and four data flows.

    python -m tools.architecture_picture    # a test checks that the file is up to date

Each package is a row, and each flow is a coloured column. A stop says what happens to the data in that package; the
numbers give the order. The picture has its own background and follows the reader's light or dark scheme.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

OUT = Path(__file__).parent.parent / "docs" / "images" / "architecture.svg"

PACKAGES = {
    "train": "one command line, one mode",
    "learners": "Gymnasium's environments",
    "viewers": "window, page, video",
    "serve": "network service, dashboard",
    "online": "gates, replay, trainer",
    "web": "one port, token, limits",
    "deploy": "a policy for other programs",
    "play": "a test and its control loop",
    "live": "a policy that is swapped",
    "weights": "bus and files",
    "rl": "learners",
    "cfg": "yaml and what composes it",
    "compat": "Isaac Gym's tasks",
    "tasks": "what is learned; Env",
    "sim": "what moves the bodies",
    "compare": "tables, curves, reports",
    "rundir": "runs and checkpoints on disk",
    "schema": "keys, units, ranges",
    "projects": "finds tasks and gates",
    "utils": "helpers",
}
"""Package -> its content in a few words; the highest package first."""


@dataclass(frozen=True)
class Flow:
    """The flow of one kind of data through the packages."""

    name: str
    route: str
    stops: dict[str, str]  # package -> what happens to the data there, in the order of the flow


FLOWS = (
    Flow("weights", "trainer → acting policy", {
        "rl": "an iteration makes a version",
        "weights": "published: bus, or files",
        "play": "a thread takes the newest",
        "live": "checked, then swapped in",
    }),
    Flow("observation", "simulator → policy", {
        "sim": "state of N environments",
        "tasks": "named blocks → one row",
        "live": "policy: row → action",
        "play": "steps the Env with it",
    }),
    Flow("configuration", "typed argument → Env", {
        "train": "numEnvs=64",
        "cfg": "composed with the yaml",
        "schema": "type, range, near names",
        "rl": "a mode takes it, typed",
        "tasks": "make_env() builds the Env",
    }),
    Flow("experience", "WebSocket → trainer", {
        "web": "host, origin, token",
        "serve": "the message is checked",
        "online": "gate, reward, replay buffer",
        "rl": "actor-critic learns from it",
    }),
)  # fmt: skip

# px
ROW = 38
HEAD = 74
LEFT = 16
FIRST = 300
COLUMN = 196
WIDTH, HEIGHT = FIRST + COLUMN * len(FLOWS) + 8, HEAD + ROW * len(PACKAGES) + 16


def style() -> str:
    """CSS rules with the colours of the light and the dark scheme."""
    light = (
        ("card", "#ffffff"),
        ("package", "#f1f5f9"),
        ("name", "#0f172a"),
        ("what", "#475569"),
        ("number", "#ffffff"),
    )
    dark = (
        ("card", "#0f172a"),
        ("package", "#1e293b"),
        ("name", "#f8fafc"),
        ("what", "#cbd5e1"),
        ("number", "#0f172a"),
    )
    flows = (("#c2410c", "#fdba74"), ("#1d4ed8", "#93c5fd"), ("#15803d", "#86efac"), ("#7e22ce", "#d8b4fe"))

    def rules(which: int) -> str:
        flat = "".join(f"    .{name} {{ fill: {colour}; }}\n" for name, colour in (light, dark)[which])
        of_flows = "".join(
            f"    .fill{i} {{ fill: {colours[which]}; }} .line{i} {{ stroke: {colours[which]}; }}\n"
            for i, colours in enumerate(flows)
        )
        return flat + of_flows

    return f"{rules(0)}    @media (prefers-color-scheme: dark) {{\n{rules(1)}    }}\n"


def middle(package: str) -> int:
    """The y coordinate of the middle of a package's row, in px."""
    return HEAD + ROW * list(PACKAGES).index(package) + ROW // 2


def text(x: int, y: int, caption: str, kind: str, size: int = 13, more: str = "") -> str:
    """An SVG line of text that begins at x."""
    return f'  <text x="{x}" y="{y}" class="{kind}" font-size="{size}"{more}>{escape(caption)}</text>\n'


def flow_shapes(number: int, flow: Flow) -> str:
    """The SVG shapes of one flow's column."""
    x = FIRST + COLUMN * number + 12
    rows = [middle(package) for package in flow.stops]
    drawn = text(x - 9, 28, flow.name, f"bold fill{number}", 15) + text(x - 9, 48, flow.route, "what")
    drawn += f'  <path d="M{x} {min(rows)} V{max(rows)}" class="line{number}" stroke-width="3"/>\n'
    for count, (package, caption) in enumerate(flow.stops.items(), 1):
        drawn += f'  <circle cx="{x}" cy="{middle(package)}" r="9" class="fill{number}"/>\n'
        drawn += text(x, middle(package) + 4, str(count), "number bold", 11, ' text-anchor="middle"')
        drawn += text(x + 14, middle(package) + 4, caption, "name", 12)
    return drawn


def picture() -> str:
    """The complete SVG file."""
    drawn = f'  <rect width="{WIDTH}" height="{HEIGHT}" rx="8" class="card"/>\n'
    drawn += text(LEFT, 28, "packages", "name bold", 15) + text(LEFT, 48, "each imports only what is below", "what")
    for package, caption in PACKAGES.items():
        top = middle(package) - ROW // 2 + 3
        drawn += f'  <rect x="8" y="{top}" width="{WIDTH - 16}" height="{ROW - 6}" rx="5" class="package"/>\n'
        drawn += text(LEFT, middle(package) + 5, package, "name bold") + text(
            LEFT + 72, middle(package) + 4, caption, "what", 12
        )
    drawn += "".join(flow_shapes(number, flow) for number, flow in enumerate(FLOWS))
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="Helvetica, Arial, '
    css = f"  <style>\n    .bold {{ font-weight: bold; }}\n{style()}  </style>\n"
    return f'{opening}sans-serif">\n{css}{drawn}</svg>\n'


if __name__ == "__main__":
    OUT.write_text(picture())
