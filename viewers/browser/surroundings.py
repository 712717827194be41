"""What stands around the robots: the floor with their shadows, and the lights. The sky is the page's own background.

The floor is a translucent sheet that fades out around the origin, where the robots are, so that the sky shows through
it and it looks right on a light and on a dark page. Lights do not move with the robots.
"""

from __future__ import annotations

import mujoco
import numpy as np
import viser

LINES = (128, 138, 152)  # colour of the floor's lines, visible on light and on dark
TINT, TINT_OPACITY = (255, 255, 255), 0.10  # of the floor
SHADOW = 0.42  # opacity
REACH = 3.2  # where the floor has faded out, in radii of what stands on it


def add_lights(server: viser.ViserServer) -> None:
    """A warm key light with shadows from the front left, a cool fill light, and light from the sky."""
    scene = server.scene
    scene.configure_default_lights(enabled=False)
    scene.configure_environment_map("studio", environment_intensity=0.35)
    scene.add_light_directional(
        "/key", color=(255, 244, 230), intensity=2.3, cast_shadow=True, position=(-0.5, -0.75, 1.6)
    )
    scene.add_light_directional("/fill", color=(196, 214, 255), intensity=0.7, position=(1.0, 0.4, 0.5))
    scene.add_light_hemisphere("/sky", sky_color=(226, 236, 255), ground_color=(150, 140, 130), intensity=0.9)


def add_floor(server: viser.ViserServer, root: str, model: mujoco.MjModel, radius: float, cell: float) -> None:
    """The infinite planes of `model`, below the frame `root`. `radius`: of all environments, m; `cell`: of lines, m."""
    for geom in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE):
        server.scene.add_grid(
            f"{root}/plane_{geom}",
            infinite_grid=True,
            cell_thickness=0.0,
            cell_size=cell,
            section_size=cell,
            section_thickness=0.35,
            section_color=LINES,
            fade_distance=REACH * radius,
            fade_strength=1.4,
            fade_from="origin",
            plane_color=TINT,
            plane_opacity=TINT_OPACITY,
            shadow_opacity=SHADOW,
            position=model.geom_pos[geom],
            wxyz=model.geom_quat[geom],
        )
