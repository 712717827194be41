"""Methods of `Gym` about the viewer: livegym's own viewers show the task, and draw the lines that it adds."""

from __future__ import annotations

import copy

from livegym.compat.core import cameras
from livegym.compat.core.lines import Viewer
from livegym.compat.core.values import Vec3
from livegym.utils.errors import UserError


class ViewerMethods:
    """There is no window of the task's own.

    A viewer is None if livegym shows the task nowhere, and false while no window, page or video draws it.
    """

    def create_viewer(self, sim, properties):
        """Return a viewer for lines; None if the task is not made for livegym's viewers or videos."""
        return Viewer(sim) if sim.lines.expected else None

    def destroy_viewer(self, viewer):
        """Do nothing."""

    def query_viewer_has_closed(self, viewer):
        """Return False: no window can be closed."""
        return False

    def query_viewer_action_events(self, viewer):
        """Return no events."""
        return []

    def viewer_camera_look_at(self, viewer, env, position, target):
        """Note where the task's camera would be. The cameras of livegym's viewers stay where their users put them."""
        if viewer is not None and tuple(position) != tuple(target):
            origin = Vec3() if env is None else env.origin
            cameras.look_at(viewer, position + origin, target + origin)

    def get_viewer_camera_transform(self, viewer, env):
        """Return where the task put its camera last, in the frame of an environment, or in the global one (None)."""
        if viewer is None:
            raise UserError("get_viewer_camera_transform: there is no viewer. Call it only `if self.viewer`.")
        pose = copy.deepcopy(viewer.pose)
        pose.p -= Vec3() if env is None else env.origin
        return pose

    def subscribe_viewer_keyboard_event(self, viewer, key, action):
        """Do nothing."""

    def subscribe_viewer_mouse_event(self, viewer, button, action):
        """Do nothing."""

    def step_graphics(self, sim):
        """Do nothing."""

    def draw_viewer(self, viewer, sim, render_collision=False):
        """Do nothing."""

    def sync_frame_time(self, sim):
        """Do nothing: time is not slowed down to real time."""

    def poll_viewer_events(self, viewer):
        """Do nothing."""

    def write_viewer_image_to_file(self, viewer, path):
        """Do nothing."""

    def add_lines(self, viewer, env, count, vertices, colors):
        """Add lines that livegym's viewers draw until `clear_lines`; without an environment they are global."""
        if viewer is not None:
            viewer.sim.lines.add(env, int(count), vertices, colors)

    def clear_lines(self, viewer):
        """Remove all lines."""
        if viewer is not None:
            viewer.sim.lines.clear()

    def draw_env_rigid_contacts(self, viewer, env, color, scale, sync):
        """Do nothing: livegym's viewers show contacts by themselves."""
