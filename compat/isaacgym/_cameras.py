"""Methods of `Gym` that place cameras and return their pictures."""

from __future__ import annotations

import numpy as np

from livegym.compat.core import cameras
from livegym.compat.core.values import ImageType, Quat, Transform, Vec3
from livegym.utils.errors import UserError


class CameraMethods:
    """Cameras look along their x axis, z up. All pictures are drawn by `render_all_camera_sensors`, on the CPU."""

    def create_camera_sensor(self, env, properties):
        """Add a camera to an environment; return its handle there."""
        return cameras.add(env, properties)

    def destroy_camera_sensor(self, sim, env, camera):
        """Remove a camera; its handle is not used again."""
        cameras.of(env, camera)
        env.cameras[camera] = None

    def set_camera_location(self, camera, env, position, target):
        """Put a camera to a position, looking at a target, both in the environment's frame."""
        cameras.look_at(cameras.of(env, camera), position, target)

    def set_camera_transform(self, camera, env, transform):
        """Put a camera to a pose in the environment's frame."""
        cameras.place(cameras.of(env, camera), transform)

    def attach_camera_to_body(self, camera, env, body, transform, mode):
        """Have a camera follow a body: its position, or its whole pose."""
        cameras.attach(env, cameras.of(env, camera), int(body), transform, mode)

    def get_camera_transform(self, sim, env, camera):
        """Return the present pose of a camera in the environment's frame."""
        sim.compile()
        position, (w, x, y, z) = cameras.pose_of(env, cameras.of(env, camera))
        return Transform(Vec3(*position.tolist()), Quat(float(x), float(y), float(z), float(w)))

    def render_all_camera_sensors(self, sim):
        """Draw the pictures of all cameras at the present state."""
        sim.render_cameras()

    def get_camera_image(self, sim, env, camera, type):
        """Return a copy of the last picture: colour (height, 4 width) uint8, depth float32, segmentation uint32."""
        picture = cameras.of(env, camera).picture(type).numpy()
        if int(type) == int(ImageType.IMAGE_COLOR):
            return picture.reshape(len(picture), -1).copy()
        return picture.astype(np.uint32) if int(type) == int(ImageType.IMAGE_SEGMENTATION) else picture.copy()

    def get_camera_image_gpu_tensor(self, sim, env, camera, type):
        """Return the tensor of a picture, on the CPU; it changes with each `render_all_camera_sensors`."""
        chosen = cameras.of(env, camera)
        if not chosen.properties.enable_tensors:
            raise UserError(
                f"get_camera_image_gpu_tensor of camera {camera}: it was made with enable_tensors=False. Set it in its "
                "CameraProperties, or use get_camera_image."
            )
        return chosen.picture(type)

    def start_access_image_tensors(self, sim):
        """Do nothing: the tensors are there when `render_all_camera_sensors` returns."""

    def end_access_image_tensors(self, sim):
        """Do nothing."""

    def write_camera_image_to_file(self, sim, env, camera, type, path):
        """Write the last colour picture as a PNG file."""
        if int(type) != int(ImageType.IMAGE_COLOR):
            raise UserError("write_camera_image_to_file writes IMAGE_COLOR only; save other images with numpy.save.")
        cameras.write_png(path, cameras.of(env, camera).picture(type).numpy())
