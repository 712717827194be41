"""The window's status text, in ASCII, because MuJoCo's overlays cannot draw other characters."""

from __future__ import annotations

import math
from typing import Any

from livegym.viewers.view import View

WINDOW = "the window"
"""The name of the window as a viewer, for requests that others see."""


def status(state: dict[str, Any], view: View, now: float) -> tuple[str, str]:
    """Two texts with one line per item of the board's `state`: names and values. `now`: s since the epoch."""
    if state["phase"] != "playing":
        return state["phase"], ascii_of(state["text"])
    lines = [("task", state["task"]), *_policy(state, view, now)]
    if state["newer_run"] is not None:
        lines.append(("newer run", state["newer_run"]))
    mean = state["return_mean"]
    lines.append(("return", "no episode yet" if mean is None else f"{mean:.4g}, mean of {state['episodes']}"))
    if state["success_rate"] is not None:
        lines.append(("success", f"{state['success_rate']:.0%}"))
    if state["level"] is not None:
        lines.append(("level", _level(state)))
    step = state["lengths"][view.env_id]
    lines.append(("environment", f"{view.env_id} (0 to {state['num_envs'] - 1}), step {step}"))
    lines.append(("speed", _speed(state)))
    return "\n".join(name for name, _ in lines), ascii_of("\n".join(str(value) for _, value in lines))


def marks(state: dict[str, Any]) -> str:
    """The unusual states of the moment, in capitals; '' if there are none."""
    policy = state.get("policy") or {}
    comparing = state.get("comparing")
    found = {
        f"PAUSED{_by(state, 'paused')}": state.get("paused"),
        f"PINNED{_by(state, 'pinned')}": policy.get("pinned"),
        f"REC{_by(state, 'recording')}": state.get("recording"),
        f"A/B {comparing[0]} | {comparing[1]}{_by(state, 'comparing')}" if comparing else "": comparing,
    }
    return ascii_of("   ".join(name for name, on in found.items() if on))


def _by(state: dict[str, Any], what: str) -> str:
    """' by operator 2', if a viewer other than the window did it."""
    who = state.get("by", {}).get(what, "")
    return f" by {who}" if who not in ("", WINDOW) else ""


def age(seconds: float) -> str:
    """'12 s', '3 min', '5 h' or '2 d', rounded down."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def _policy(state: dict[str, Any], view: View, now: float) -> list[tuple[str, str]]:
    policy = state["policy"]
    if policy is None:
        return [("agent", state["agent"])]
    made = f"{age(now - policy['made'])} old" if policy["made"] is not None else "of unknown age"
    lines = [("run", policy["run"])] if policy["run"] else []
    lines.append(("version", f"{state['labels'][view.env_id]}, epoch {policy['epoch']}, {made}"))
    if policy["newest"] != policy["label"]:
        lines.append(("newest", str(policy["newest"])))
    lines.append(("takes over", f"{policy['how']}{', swapping now' if policy['swapping'] else ''}"))
    return lines


def _level(state: dict[str, Any]) -> str:
    """The curriculum level that is played, and the version's own if that is another one."""
    own = None if state["policy"] is None else state["policy"]["level"]
    trained = "" if own in (None, state["level"]) else f", trained at {own:.2f}"
    return f"{state['level']:.2f}{trained}"


def _speed(state: dict[str, Any]) -> str:
    asked = "as fast as possible" if state["speed"] is None else f"{state['speed']:g} x real time"
    measured = state["real_time"]
    if state["paused"] or measured is None or not math.isfinite(measured):
        return asked
    return f"{asked}, measured {measured:.2f} x"


def ascii_of(text: str) -> str:
    """`text` with a question mark for each character outside ASCII."""
    return text.encode("ascii", "replace").decode()
