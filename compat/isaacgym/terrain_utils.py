"""Rough ground for legged robots: height fields of integer samples, and triangle meshes made from them.

    terrain = SubTerrain("stairs", width=80, length=80, vertical_scale=0.005, horizontal_scale=0.1)
    pyramid_stairs_terrain(terrain, step_width=0.31, step_height=0.1, platform_size=3.0)
    vertices, triangles = convert_heightfield_to_trimesh(terrain.height_field_raw, 0.1, 0.005, slope_threshold=1.5)

`height_field_raw[i, j]` is the height at x = i, y = j, in units of `vertical_scale`; sizes given to functions are in
metres. Each function changes the terrain's samples and returns the terrain. Random numbers come from numpy's global
generator, which task code seeds.
"""

import numpy as np

from livegym.compat.core import terrain as core


class SubTerrain:
    """A square of ground: `width` samples along x, `length` along y, all 0."""

    def __init__(self, terrain_name="terrain", width=256, length=256, vertical_scale=1.0, horizontal_scale=1.0):
        """Scales are metres per unit of height and per sample."""
        self.terrain_name = terrain_name
        self.vertical_scale = vertical_scale
        self.horizontal_scale = horizontal_scale
        self.width = width
        self.length = length
        self.height_field_raw = np.zeros((width, length), dtype=np.int16)


def _units(terrain, metres):
    """Heights in units of the terrain's samples."""
    return int(round(metres / terrain.vertical_scale, 6))


def _samples(terrain, metres):
    """Lengths in numbers of samples."""
    return int(round(metres / terrain.horizontal_scale, 6))


def _middle(size, part):
    """The slice of `part` samples in the middle of `size`."""
    start = (size - part) // 2
    return slice(max(start, 0), max(start, 0) + part)


def _stretch(values, size):
    """Linear interpolation of values along their first axis to `size` of them, the ends staying."""
    at = np.linspace(0.0, len(values) - 1.0, size)
    low = np.minimum(at.astype(int), max(len(values) - 2, 0))
    part = (at - low).reshape(-1, *[1] * (values.ndim - 1))
    high = np.minimum(low + 1, len(values) - 1)
    return values[low] * (1.0 - part) + values[high] * part


def random_uniform_terrain(terrain, min_height, max_height, step=1, downsampled_scale=None):
    """Add heights drawn from min_height, min_height + step, ... max_height, every `downsampled_scale` metres."""
    spacing = terrain.horizontal_scale if downsampled_scale is None else downsampled_scale
    low, high = _units(terrain, min_height), _units(terrain, max_height)
    levels = np.arange(low, high + 1, max(_units(terrain, step), 1))
    coarse = [max(int(n * terrain.horizontal_scale / spacing), 2) for n in (terrain.width, terrain.length)]
    drawn = np.random.choice(levels, coarse).astype(float)
    smooth = _stretch(_stretch(drawn, terrain.width).T, terrain.length).T
    terrain.height_field_raw += np.rint(smooth).astype(np.int16)
    return terrain


def sloped_terrain(terrain, slope=1):
    """Add a plane that rises along x by `slope` metres a metre."""
    rise = slope * terrain.horizontal_scale / terrain.vertical_scale
    terrain.height_field_raw += (rise * np.arange(terrain.width)[:, None]).astype(np.int16)
    return terrain


def pyramid_sloped_terrain(terrain, slope=1, platform_size=1.0):
    """Add a pyramid with its top, or for a negative slope its bottom, in the middle, cut off to a platform."""
    x, y = (1.0 - np.abs(2.0 * np.arange(n) / n - 1.0) for n in (terrain.width, terrain.length))
    top = slope * terrain.horizontal_scale / terrain.vertical_scale * terrain.width / 2
    shape = (top * x[:, None] * y[None, :]).astype(np.int16)
    half = _samples(terrain, platform_size) // 2
    edge = shape[max(terrain.width // 2 - half, 0), max(terrain.length // 2 - half, 0)]
    terrain.height_field_raw += np.clip(shape, min(0, edge), max(0, edge))
    return terrain


def discrete_obstacles_terrain(terrain, max_height, min_size, max_size, num_rects, platform_size=1.0):
    """Set `num_rects` rectangles to heights of +- max_height or half of it; the middle stays flat."""
    tall = _units(terrain, max_height)
    heights = [-tall, -tall // 2, tall // 2, tall]
    sizes = np.arange(_samples(terrain, min_size), max(_samples(terrain, max_size), _samples(terrain, min_size) + 1), 4)
    field = terrain.height_field_raw
    for _ in range(num_rects):
        extent = np.random.choice(sizes, 2)
        corner = [np.random.choice(np.arange(0, max(n - k, 1), 4)) for n, k in zip(field.shape, extent, strict=True)]
        where = tuple(slice(c, c + k) for c, k in zip(corner, extent, strict=True))
        field[where] = np.random.choice(heights)
    part = _samples(terrain, platform_size)
    field[_middle(terrain.width, part), _middle(terrain.length, part)] = 0
    return terrain


def wave_terrain(terrain, num_waves=1, amplitude=1.0):
    """Add `num_waves` waves along x and along y; each direction has half of the amplitude."""
    if num_waves > 0:
        height = 0.5 * amplitude / terrain.vertical_scale
        turn = 2.0 * np.pi * num_waves
        x, y = (turn * np.arange(n) / n for n in (terrain.width, terrain.length))
        terrain.height_field_raw += (height * (np.sin(x)[:, None] + np.cos(y)[None, :])).astype(np.int16)
    return terrain


def stairs_terrain(terrain, step_width, step_height):
    """Add stairs that rise along x."""
    width, height = max(_samples(terrain, step_width), 1), _units(terrain, step_height)
    terrain.height_field_raw += (height * (1 + np.arange(terrain.width) // width)).astype(np.int16)[:, None]
    return terrain


def pyramid_stairs_terrain(terrain, step_width, step_height, platform_size=1.0):
    """Set stairs on all four sides up, or for a negative height down, to a platform in the middle."""
    width, height = max(_samples(terrain, step_width), 1), _units(terrain, step_height)
    platform = _samples(terrain, platform_size)
    field = terrain.height_field_raw
    inset, level = width, height
    while min(field.shape) - 2 * inset + 2 * width > platform and min(field.shape) > 2 * inset:
        field[inset : terrain.width - inset, inset : terrain.length - inset] = level
        inset, level = inset + width, level + height
    return terrain


def stepping_stones_terrain(terrain, stone_size, stone_distance, max_height, platform_size=1.0, depth=-10):
    """Set stones of random heights up to max_height in a pit of `depth` metres, around a flat platform."""
    stone, gap = max(_samples(terrain, stone_size), 1), _samples(terrain, stone_distance)
    tall = _units(terrain, max_height)
    heights = np.arange(-tall - 1, tall) if tall else np.zeros(1)
    field = terrain.height_field_raw
    field[:] = _units(terrain, depth)
    for row in range(0, terrain.length, stone + gap):
        for begin in range(-np.random.randint(0, stone), terrain.width, stone + gap):  # each row begins elsewhere
            field[max(begin, 0) : begin + stone, row : row + stone] = np.random.choice(heights)
    part = _samples(terrain, platform_size)
    field[_middle(terrain.width, part), _middle(terrain.length, part)] = 0
    return terrain


def convert_heightfield_to_trimesh(height_field_raw, horizontal_scale, vertical_scale, slope_threshold=None):
    """Return vertices (n, 3) float32 in metres and triangles (m, 3) uint32, two a cell, facing up.

    Where the ground rises more steeply than `slope_threshold`, the lower vertices move by a cell under the upper ones,
    so that the wall is vertical. The height field itself is remembered for `add_triangle_mesh`.
    """
    field = np.asarray(height_field_raw)
    rows, columns = field.shape
    vertices = np.empty((rows, columns, 3), np.float32)
    vertices[..., 0] = np.arange(rows)[:, None]
    vertices[..., 1] = np.arange(columns)
    if slope_threshold is not None:
        moves = _walls(field.astype(np.float32), slope_threshold * horizontal_scale / vertical_scale)
        for axis, move in enumerate(moves):
            vertices[..., axis] += move
    vertices[..., :2] *= horizontal_scale
    vertices[..., 2] = field * float(vertical_scale)
    triangles = np.empty((rows - 1, columns - 1, 6), np.uint32)
    triangles[:] = (np.arange(rows - 1) * columns)[:, None, None] + np.arange(columns - 1)[:, None]
    triangles += np.array([0, columns + 1, 1, 0, columns, columns + 1], np.uint32)  # the corners of both triangles
    points = vertices.reshape(-1, 3)
    core.remember(points, field * float(vertical_scale), float(horizontal_scale))
    return points, triangles.reshape(-1, 3)


def _walls(field, rise):
    """The moves, in cells along x and y, that make walls of steps higher than `rise` units."""
    moves = []
    for axis in (0, 1):
        step = np.diff(field, axis=axis)
        move = np.zeros_like(field)
        before, after = (
            tuple(s if a == axis else slice(None) for a in (0, 1)) for s in (slice(None, -1), slice(1, None))
        )
        move[before] += step > rise  # it rises ahead: this one is at the foot
        move[after] -= step < -rise  # it fell from behind
        moves.append(move)
    rises, falls = field[1:, 1:] - field[:-1, :-1] > rise, field[:-1, :-1] - field[1:, 1:] > rise
    corner = np.zeros_like(field)
    corner[:-1, :-1] += rises
    corner[1:, 1:] -= falls
    corner[(moves[0] != 0) | (moves[1] != 0)] = 0.0
    return [move + corner for move in moves]
