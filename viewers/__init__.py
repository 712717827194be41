"""How people watch a policy: in a window, on a web page, and in videos."""

from livegym.utils.mujoco_gl import import_mujoco

import_mujoco()  # before any module here imports it
