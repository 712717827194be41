"""Command lines, configuration, randomisation and wire frames of task code.

args = gymutil.parse_arguments(description="task", custom_parameters=[{"name": "--task", "type": str}])
gymutil.parse_sim_config({"dt": 0.005, "physx": {"num_threads": 4}}, sim_params)
gymutil.draw_lines(gymutil.AxesGeometry(0.1), gym, viewer, env, pose)     # livegym's viewers show it
"""

from __future__ import annotations

import argparse
import itertools
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
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


class LineGeometry:
    """Lines with colours, which `draw_lines` puts to poses. Task code may derive classes of its own."""

    def vertices(self):
        """Return the ends of the lines, (lines, 2) of `Vec3.dtype`."""
        raise NotImplementedError(f"{type(self).__name__} needs a method vertices()")

    def colors(self):
        """Return the colours, (lines,) of `Vec3.dtype`."""
        raise NotImplementedError(f"{type(self).__name__} needs a method colors()")

    def num_lines(self):
        """Return the number of lines."""
        return len(self.vertices())

    def instance_verts(self, pose=None):
        """Return the ends of the lines at a pose."""
        return _moved(self.vertices(), pose)


class _WireFrame(LineGeometry):
    """Lines that are known from the start, where `pose` puts them."""

    def __init__(self, ends, colors, pose):
        """Take ends (lines, 2, 3) and colours (lines, 3)."""
        self.verts = _moved(_as_vectors(ends), pose)
        self._colors = _as_vectors(np.broadcast_to(colors, (len(ends), 3)))

    def vertices(self):
        """Return the ends of the lines, (lines, 2) of `Vec3.dtype`."""
        return self.verts

    def colors(self):
        """Return the colours, (lines,) of `Vec3.dtype`."""
        return self._colors


class AxesGeometry(_WireFrame):
    """The axes of a frame: x in red, y in green, z in blue."""

    def __init__(self, scale=1.0, pose=None):
        """Make axes that are `scale` m long."""
        super().__init__(np.stack([np.zeros((3, 3)), scale * np.eye(3)], 1), np.eye(3), pose)


class WireframeBBoxGeometry(_WireFrame):
    """The twelve edges of a box from its lowest corner to its highest."""

    def __init__(self, bbox, pose=None, color=None):
        """Take the two corners, m."""
        low, high = (np.array(tuple(corner), float) for corner in bbox)
        corners = np.array(list(itertools.product((0.0, 1.0), repeat=3)))  # (8, 3)
        edges = [(a, b) for a, b in itertools.combinations(range(8), 2) if np.abs(corners[a] - corners[b]).sum() == 1.0]
        super().__init__((low + corners * (high - low))[np.array(edges)], _color(color), pose)


class WireframeBoxGeometry(WireframeBBoxGeometry):
    """The twelve edges of a box around the origin."""

    def __init__(self, xdim=1, ydim=1, zdim=1, pose=None, color=None):
        """Take the lengths of the edges, m."""
        half = np.array([xdim, ydim, zdim]) / 2
        super().__init__((-half, half), pose, color)


class WireframeSphereGeometry(_WireFrame):
    """Circles of latitude and meridians of a sphere around the origin."""

    def __init__(self, radius=1.0, num_lats=8, num_lons=8, pose=None, color=None, color2=None):
        """Make `num_lats` * `num_lons` lines along circles, and as many along meridians, which may be in `color2`."""
        lat, lon = np.meshgrid(np.arange(num_lats) * np.pi / num_lats, np.arange(num_lons) * 2 * np.pi / num_lons)
        here = _on_sphere(lat, lon)
        east, south = _on_sphere(lat, lon + 2 * np.pi / num_lons), _on_sphere(lat + np.pi / num_lats, lon)
        ends = radius * np.stack([np.stack([here, there], -2) for there in (east, south)], 2)  # (lons, lats, 2, 2, 3)
        colors = np.stack([_color(color), _color(color if color2 is None else color2)])
        super().__init__(ends.reshape(-1, 2, 3), np.tile(colors, (num_lats * num_lons, 1)), pose)


def _on_sphere(lat, lon):
    """Points (..., 3) of the unit sphere at angles (...) from the north pole and around it, rad."""
    return np.stack([np.sin(lat) * np.cos(lon), np.sin(lat) * np.sin(lon), np.cos(lat)], -1)


def _color(color):
    """Return red, green and blue (3,); red if no colour is given."""
    return np.array((1.0, 0.0, 0.0) if color is None else tuple(color), float)


def _as_vectors(numbers):
    """Return numbers (..., 3) as (...) of `Vec3.dtype`."""
    return np.ascontiguousarray(numbers, np.float32).view(Vec3.dtype)[..., 0]


def _moved(ends, pose):
    """Return ends of lines, of `Vec3.dtype`, at a pose."""
    if pose is None:
        return ends
    numbers = np.ascontiguousarray(ends).view(np.float32).reshape(*ends.shape, 3)
    return _as_vectors(numbers @ _axes(pose.r) + np.array(tuple(pose.p)))


def _axes(quat):
    """Return the directions (3, 3) of x, y and z after a rotation, fast: tasks draw hundreds of spheres in a step."""
    x, y, z, w = quat
    return np.eye(3) + 2.0 * np.array(
        [
            [-y * y - z * z, x * y + z * w, x * z - y * w],
            [x * y - z * w, -x * x - z * z, y * z + x * w],
            [x * z + y * w, y * z - x * w, -x * x - y * y],
        ]
    )


def draw_lines(geom, gym, viewer, env, pose):
    """Draw a geometry at a pose in the frame of an environment."""
    if viewer is not None:
        gym.add_lines(viewer, env, geom.num_lines(), geom.instance_verts(pose), geom.colors())


def draw_line(p1, p2, color, gym, viewer, env):
    """Draw a line between two points, in the frame of an environment."""
    gym.add_lines(viewer, env, 1, [*p1, *p2], list(color))
