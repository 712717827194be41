"""Writes docs/images/architecture.svg: the rooms (packages), the lowest at the bottom, and four data flows.

    python -m tools.architecture_picture    # a test checks that the file is up to date

Each room is a row, and each flow is a coloured column. A stop says what happens to the data in that room; the numbers
give the order. The picture has its own background and follows the reader's light or dark scheme.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

OUT = Path(__file__).parent.parent / "docs" / "images" / "architecture.svg"

ROOMS = {
    "train": "one command line, one mode",
    "viewers": "window, page, video",
    "serve": "network service, dashboard",
    "online": "gates, replay, trainer",
    "web": "one port, token, limits",
    "play": "a test and its control loop",
    "live": "a policy that is swapped",
    "weights": "bus and files",
    "rl": "learners",
    "cfg": "yaml and what composes it",
    "tasks": "what is learned; Env",
    "sim": "what moves the bodies",
    "rundir": "runs and checkpoints on disk",
    "schema": "keys, units, ranges",
    "projects": "finds tasks and gates",
    "utils": "helpers",
}
"""Room -> its content in a few words; the highest room first."""


@dataclass(frozen=True)
class Way:
    """The flow of one kind of data through the rooms."""

    name: str
    ends: str
    stops: dict[str, str]  # room -> what happens to the data there, in the order of the flow


WAYS = (
    Way("weights", "trainer → acting policy", {
        "rl": "an iteration makes a version",
        "weights": "published: bus, or files",
        "play": "a thread takes the newest",
        "live": "checked, then swapped in",
    }),
    Way("observation", "simulator → policy", {
        "sim": "state of N environments",
        "tasks": "named blocks → one row",
        "live": "policy: row → action",
        "play": "steps the Env with it",
    }),
    Way("configuration", "typed argument → Env", {
        "train": "numEnvs=64",
        "cfg": "composed with the yaml",
        "schema": "type, range, near names",
        "rl": "a mode takes it, typed",
        "tasks": "make_env() builds the Env",
    }),
    Way("experience", "WebSocket → trainer", {
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
WIDTH, HEIGHT = FIRST + COLUMN * len(WAYS) + 8, HEAD + ROW * len(ROOMS) + 16


def style() -> str:
    """CSS rules with the colours of the light and the dark scheme."""
    light = (("card", "#ffffff"), ("room", "#f1f5f9"), ("name", "#0f172a"), ("what", "#475569"), ("number", "#ffffff"))
    dark = (("card", "#0f172a"), ("room", "#1e293b"), ("name", "#f8fafc"), ("what", "#cbd5e1"), ("number", "#0f172a"))
    ways = (("#c2410c", "#fdba74"), ("#1d4ed8", "#93c5fd"), ("#15803d", "#86efac"), ("#7e22ce", "#d8b4fe"))

    def rules(which: int) -> str:
        flat = "".join(f"    .{name} {{ fill: {colour}; }}\n" for name, colour in (light, dark)[which])
        of_ways = "".join(
            f"    .fill{i} {{ fill: {colours[which]}; }} .line{i} {{ stroke: {colours[which]}; }}\n"
            for i, colours in enumerate(ways)
        )
        return flat + of_ways

    return f"{rules(0)}    @media (prefers-color-scheme: dark) {{\n{rules(1)}    }}\n"


def middle(room: str) -> int:
    """The y coordinate of the middle of a room's row, in px."""
    return HEAD + ROW * list(ROOMS).index(room) + ROW // 2


def text(x: int, y: int, words: str, kind: str, size: int = 13, more: str = "") -> str:
    """An SVG line of text that begins at x."""
    return f'  <text x="{x}" y="{y}" class="{kind}" font-size="{size}"{more}>{escape(words)}</text>\n'


def way_shapes(number: int, way: Way) -> str:
    """The SVG shapes of one flow's column."""
    x = FIRST + COLUMN * number + 12
    rows = [middle(room) for room in way.stops]
    drawn = text(x - 9, 28, way.name, f"bold fill{number}", 15) + text(x - 9, 48, way.ends, "what")
    drawn += f'  <path d="M{x} {min(rows)} V{max(rows)}" class="line{number}" stroke-width="3"/>\n'
    for count, (room, words) in enumerate(way.stops.items(), 1):
        drawn += f'  <circle cx="{x}" cy="{middle(room)}" r="9" class="fill{number}"/>\n'
        drawn += text(x, middle(room) + 4, str(count), "number bold", 11, ' text-anchor="middle"')
        drawn += text(x + 14, middle(room) + 4, words, "name", 12)
    return drawn


def picture() -> str:
    """The complete SVG file."""
    drawn = f'  <rect width="{WIDTH}" height="{HEIGHT}" rx="8" class="card"/>\n'
    drawn += text(LEFT, 28, "rooms", "name bold", 15) + text(LEFT, 48, "each imports only what is below", "what")
    for room, words in ROOMS.items():
        top = middle(room) - ROW // 2 + 3
        drawn += f'  <rect x="8" y="{top}" width="{WIDTH - 16}" height="{ROW - 6}" rx="5" class="room"/>\n'
        drawn += text(LEFT, middle(room) + 5, room, "name bold") + text(LEFT + 72, middle(room) + 4, words, "what", 12)
    drawn += "".join(way_shapes(number, way) for number, way in enumerate(WAYS))
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="Helvetica, Arial, '
    css = f"  <style>\n    .bold {{ font-weight: bold; }}\n{style()}  </style>\n"
    return f'{opening}sans-serif">\n{css}{drawn}</svg>\n'


if __name__ == "__main__":
    OUT.write_text(picture())
