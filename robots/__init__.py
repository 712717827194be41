"""A robot of your own: from a file in URDF or MJCF to a project with a task in which it learns to stand.

`read` (URDF or MJCF), `motors` (motors with gains), `pose` (a pose in which it stands), `report` (what was found and
what is odd), `project` (the files that are written), `command` (`livegym new my_robot --from robot.urdf`).
"""
