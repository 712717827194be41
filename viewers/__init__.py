"""What people see: a window, a page, videos."""

from livegym.utils.mujoco_gl import import_mujoco

import_mujoco()  # before any module here does
