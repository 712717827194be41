"""Command lines, configuration, randomisation and wire frames of task code.

    args = gymutil.parse_arguments(description="task", custom_parameters=[{"name": "--task", "type": str}])
    gymutil.parse_sim_config({"dt": 0.005, "physx": {"num_threads": 4}}, sim_params)

Wire frames draw nothing here: there is no viewer window.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from typing import Any

from isaacgym._randomization import (  # noqa: F401 - part of this module for task code
    apply_random_samples,
    check_buckets,
    generate_random_samples,
    get_default_setter_args,
    get_property_getter_map,
    get_property_setter_map,
)

from livegym.compat.core.enums import SimType
from livegym.compat.core.values import SimParams, Vec3

log = logging.getLogger(__name__)

ENGINES = {"physx": int(SimType.SIM_PHYSX), "flex": int(SimType.SIM_FLEX)}


def parse_device_str(device_str: str) -> tuple[str, int]:
    """Return the kind of a device and its number: 'cuda:1' -> ('cuda', 1). Raises ValueError for other kinds."""
    kind, _, number = str(device_str).lower().partition(":")
    kind = "cuda" if kind == "gpu" else kind
    if kind not in ("cpu", "cuda") or not (number or "0").isdigit():
        raise ValueError(f"device {device_str!r}: allowed are cpu, cuda and cuda:<number>")
    return kind, int(number or 0)


def parse_arguments(
    description: str = "Isaac Gym task", headless: bool = False, no_graphics: bool = False, custom_parameters=()
) -> argparse.Namespace:
    """Parse the command line: the usual options and a task's own.

    Each of `custom_parameters` has `name`, and `type`, `default`, `choices`, `action`, `help` as argparse takes them.
    The simulation runs on the CPU, whatever is asked: `sim_device_type` is 'cpu', `use_gpu_pipeline` is False.
    """
    parser = argparse.ArgumentParser(description=description)
    if headless:
        parser.add_argument("--headless", action="store_true", help="run without a window")
    if no_graphics:
        parser.add_argument("--nographics", action="store_true", help="run without graphics and window")
    parser.add_argument("--sim_device", default="cpu", help="device of the physics, for example cpu")
    parser.add_argument("--pipeline", default="cpu", help="device of the tensors: cpu")
    parser.add_argument("--graphics_device_id", type=int, default=0, help="number of the device for graphics")
    parser.add_argument("--num_threads", type=int, default=0, help="threads of the physics")
    parser.add_argument("--subscenes", type=int, default=0, help="accepted, without effect")
    parser.add_argument("--slices", type=int, help="accepted, without effect")
    engine = parser.add_mutually_exclusive_group()
    engine.add_argument("--flex", action="store_true", help="soft bodies: not available")
    engine.add_argument("--physx", action="store_true", help="rigid bodies, the default")
    for parameter in custom_parameters:
        _add(parser, dict(parameter))
    return _complete(parser.parse_args())


def _add(parser: argparse.ArgumentParser, parameter: dict[str, Any]) -> None:
    name = parameter.pop("name")
    parser.add_argument(name, **parameter)


def _complete(args: argparse.Namespace) -> argparse.Namespace:
    """Add what task code derives from the options."""
    asked, _ = parse_device_str(args.sim_device)
    if asked != "cpu" or args.pipeline.lower() not in ("cpu", "none"):
        log.warning("The simulation runs on the CPU; sim_device=%s, pipeline=%s.", args.sim_device, args.pipeline)
    args.sim_device, args.pipeline = "cpu", "cpu"
    args.sim_device_type, args.compute_device_id = "cpu", 0
    args.device, args.device_id = "cpu", 0
    args.use_gpu, args.use_gpu_pipeline = False, False
    args.physics_engine = ENGINES["flex" if args.flex else "physx"]
    if args.slices is None:
        args.slices = args.subscenes
    if getattr(args, "rl_device", "").startswith("cuda"):
        args.rl_device = "cpu"
    return args


def parse_sim_config(config: Mapping[str, Any], sim_params: SimParams) -> None:
    """Copy a nested mapping onto simulation parameters. Raises AttributeError for a name that they do not have."""
    for name, value in config.items():
        if name in ("physx", "flex"):
            for key, number in value.items():
                setattr(getattr(sim_params, name), key, number)
        elif name == "gravity":
            sim_params.gravity = Vec3(*value)
        else:
            setattr(sim_params, name, value)


def _indent_xml(elem, level=0):
    """Give an XML element tree line breaks and two spaces an element depth."""
    children = list(elem)
    if children:
        elem.text = (elem.text or "").strip() or "\n" + "  " * (level + 1)
    for number, child in enumerate(children):
        _indent_xml(child, level + 1)
        deeper = number < len(children) - 1
        child.tail = (child.tail or "").strip() or "\n" + "  " * (level + deeper)


class _WireFrame:
    """Lines that task code would draw; it has none here."""

    def __init__(self, *args, **kwargs):
        """Accept the sizes and colours of a wire frame."""

    def vertices(self):
        """Return no vertices."""
        return ()

    def colors(self):
        """Return no colours."""
        return ()

    def num_lines(self):
        """Return 0."""
        return 0

    def instance_verts(self, pose=None):
        """Return no vertices."""
        return ()


LineGeometry = _WireFrame


class AxesGeometry(_WireFrame):
    """Three lines of a frame."""


class WireframeBoxGeometry(_WireFrame):
    """The edges of a box."""


class WireframeBBoxGeometry(_WireFrame):
    """The edges of a bounding box."""


class WireframeSphereGeometry(_WireFrame):
    """Circles of a sphere."""


def draw_lines(geom, gym, viewer, env, pose):
    """Draw nothing."""


def draw_line(p1, p2, color, gym, viewer, env):
    """Draw nothing."""
