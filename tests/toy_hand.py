"""A hand that is not ours: a gripper of three fingers at the end of an arm, in degrees, with names of its own.

write_toy(folder)            # gripper.xml, gripper.yaml, and gripper.urdf of the same shapes
"""

from __future__ import annotations

from pathlib import Path

import yaml

FINGER = """
      <body name="{name}1" pos="{place}"><joint name="{name}_in" axis="{axis}" range="-20 60"/>
        <geom type="capsule" size=".01" fromto="0 0 0 0 0 .05" mass=".02"/>
        <body name="{name}2" pos="0 0 .05"><joint name="{name}_end" axis="{axis}" range="-20 60"/>
          <geom type="box" size="{half} .008 .03" pos="0 0 .03" mass=".02"/>
        </body>
      </body>"""
PLACES = {"t": (0, -0.05, 0.01), "a": (0.012, 0.05, 0.01), "b": (-0.012, 0.05, 0.01)}
"""Where the fingers begin: the palm looks along z; the thumb and the other two close along y."""
HALF_WIDTHS = {"t": 0.022, "a": 0.01, "b": 0.01}  # m
AXES = {"t": (-1, 0, 0), "a": (1, 0, 0), "b": (-1, 0, 0)}  # b closes with a negative angle
MJCF = """<mujoco model="gripper"><option timestep="0.002" integrator="RK4"/>
<default><geom contype="1" conaffinity="1"/><joint damping="2"/></default>
<worldbody><body name="arm"><joint name="elbow" range="-90 90"/><geom name="arm" size=".02" pos="0 0 -.2"/>
    <body name="plate" pos="0 0 .3" euler="20 30 40"><joint name="wrist" range="-90 90"/>
      <geom name="plate" type="box" size=".04 .06 .01" mass=".2"/>{fingers}
    </body></body></worldbody>
<actuator><motor name="pull" joint="t_in"/><position name="turn" joint="elbow" kp="9"/></actuator>
<sensor><jointpos joint="t_in"/></sensor><keyframe><key name="home" qpos="0 0 0 0 0 0 0 0"/></keyframe></mujoco>"""
URDF = """<robot name="gripper"><link name="world"/><link name="plate"><collision><geometry><box size=".08 .12 .02"/>
</geometry></collision><inertial><mass value=".2"/><inertia ixx="1e-4" iyy="1e-4" izz="1e-4" ixy="0" ixz="0" iyz="0"/>
</inertial></link><joint name="mount" type="fixed"><parent link="world"/><child link="plate"/></joint>
{fingers}</robot>"""
LINK = """<link name="{link}"><collision><origin xyz="0 0 .03"/><geometry><box size="{width} .016 .06"/></geometry>
</collision><inertial><origin xyz="0 0 .025"/><mass value=".02"/><inertia ixx="5e-6" iyy="5e-6" izz="1e-6" ixy="0"
ixz="0" iyz="0"/></inertial></link><joint name="{joint}" type="revolute"><parent link="{parent}"/><child link="{link}"/>
<origin xyz="{place}"/><axis xyz="{axis}"/><limit lower="-0.349" upper="1.047" effort="9" velocity="9"/></joint>"""


def toy_map() -> dict:
    """The content of gripper.yaml."""
    finger = {"tip": [0, 0, 0.06], "pad": [0, 0, 0.04]}
    return {
        "model": "gripper.xml",
        "palm": "plate",
        "along": [0, 1, 0],
        "faces": [0, 0, 2],
        "grasp": [0, 0, 0.1],
        "fingers": {"thumb": {"link": "t2", **finger}, "a": {"link": "a2", **finger}, "b": {"link": "b2", **finger}},
        "controls": {
            "thumb": {"joints": {"t_in": 1}, "open": 0.0},
            "pair": {"joints": {"a_in": 1, "b_in": -1}, "open": 0},
        },
        "held": ["t_end", "a_end", "b_end"],
        "motors": {"damping": 0.2, "joint_damping": 0.1, "armature": 0.002},
    }


def write_toy(folder: Path, **changes: object) -> Path:
    """Write model and map, whose keys may be changed; returns the path of the map."""
    words = {name: " ".join(map(str, place)) for name, place in PLACES.items()}
    axes = {name: " ".join(map(str, axis)) for name, axis in AXES.items()}
    parts = "".join(FINGER.format(name=n, place=words[n], axis=axes[n], half=HALF_WIDTHS[n]) for n in PLACES)
    parts = parts.replace('b_in" axis="-1 0 0" range="-20 60"', 'b_in" axis="-1 0 0" range="-60 20"')
    (folder / "gripper.xml").write_text(MJCF.format(fingers=parts))
    links = ""
    for name in PLACES:
        same = {"axis": axes[name], "width": 2 * HALF_WIDTHS[name]}
        first = LINK.format(link=f"{name}1", joint=f"{name}_in", parent="plate", place=words[name], **same)
        if name == "b":
            first = first.replace('lower="-0.349" upper="1.047"', 'lower="-1.047" upper="0.349"')
        links += first + LINK.format(link=f"{name}2", joint=f"{name}_end", parent=f"{name}1", place="0 0 .05", **same)
    (folder / "gripper.urdf").write_text(URDF.format(fingers=links))
    file = folder / "gripper.yaml"
    file.write_text(yaml.safe_dump({**toy_map(), **changes}, sort_keys=False))
    return file
