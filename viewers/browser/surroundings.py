"""The surroundings of the robots: the floor with their shadows, and the lights. The sky is the page's own background.

The floor is only lines and shadows, which fade out around the origin, where the robots are. So it looks right on a
light and on a dark page, and has no edge at the horizon. Lights do not move with the robots.
"""

from __future__ import annotations

import mujoco
import numpy as np
import viser

LINES = (104, 116, 132)  # colour of the floor's lines, visible on light and on dark
WARM, COOL = (255, 243, 228), (200, 216, 255)
SHADOW = 0.45  # opacity
REACH = 3.5  # where the floor has faded out, in radii of what stands on it


def add_lights(server: viser.ViserServer) -> None:
    """A warm key light with shadows, a cool fill light from the other side, and light from sky and ground.

    An environment map would cost a browser without a graphics card a third of its frames, and every browser 100 kB.
    """
    scene = server.scene
    scene.configure_default_lights(enabled=False)
    scene.configure_environment_map(None)
    scene.add_light_directional("/key", color=WARM, intensity=2.6, cast_shadow=True, position=(-0.4, -0.7, 1.6))
    scene.add_light_directional("/fill", color=COOL, intensity=0.9, position=(1.0, 0.3, 0.6))
    scene.add_light_hemisphere("/sky", sky_color=(232, 240, 255), ground_color=(150, 142, 136), intensity=1.5)


def add_floor(server: viser.ViserServer, root: str, model: mujoco.MjModel, radius: float, cell: float) -> None:
    """The infinite planes of `model`, below the frame `root`. `radius`: of all environments, m; `cell`: of lines, m."""
    for geom in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE):
        server.scene.add_grid(
            f"{root}/plane_{geom}",
            infinite_grid=True,
            cell_thickness=0.0,
            cell_size=cell,
            section_size=cell,
            section_thickness=0.6,
            section_color=LINES,
            fade_distance=REACH * radius,
            fade_strength=1.4,
            fade_from="origin",
            shadow_opacity=SHADOW,
            position=model.geom_pos[geom],
            wxyz=model.geom_quat[geom],
        )
