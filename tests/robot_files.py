"""Small robots as files: a table on four legs, in URDF and in MJCF."""

from __future__ import annotations

from pathlib import Path

BOX = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nv 1 1 0\nv 1 0 1\nv 0 1 1\nv 1 1 1\n" + "".join(
    f"f {face}\n" for face in ("1 3 2", "2 3 5", "1 2 4", "2 6 4", "1 4 3", "3 4 7", "8 6 5", "2 5 6", "8 5 7", "5 3 7",
                               "8 7 6", "6 7 4")
)  # fmt: skip
INERTIA = '<inertia ixx="{0}" iyy="{0}" izz="{0}" ixy="0" ixz="0" iyz="0"/>'
LEGS = {"rear_left": (-0.2, 0.15), "rear_right": (-0.2, -0.15), "front_left": (0.2, 0.15), "front_right": (0.2, -0.15)}


def leg(name: str, x: float, y: float) -> str:
    """Hip and knee of one leg; 0 is outside the knee's range."""
    return f"""
  <link name="{name}_thigh"><inertial><origin xyz="0 0 -.1"/><mass value=".4"/>{INERTIA.format(0.002)}</inertial>
    <collision><origin xyz="0 0 -.1"/><geometry><box size=".03 .03 .16"/></geometry></collision></link>
  <joint name="{name}_hip" type="revolute"><parent link="body"/><child link="{name}_thigh"/>
    <origin xyz="{x} {y} 0"/><axis xyz="0 1 0"/><limit lower="-1.2" upper="1.2" effort="20" velocity="15"/></joint>
  <link name="{name}_shin"><inertial><origin xyz="0 0 -.1"/><mass value=".2"/>{INERTIA.format(0.001)}</inertial>
    <collision><origin xyz="0 0 -.2"/><geometry><sphere radius=".025"/></geometry></collision></link>
  <joint name="{name}_knee" type="revolute"><parent link="{name}_thigh"/><child link="{name}_shin"/>
    <origin xyz="0 0 -.2"/><axis xyz="0 1 0"/><limit lower="-2.2" upper="-.6" effort="20" velocity="15"/></joint>"""


TABLE = f"""<robot name="table">
  <material name="wood"><color rgba=".6 .4 .2 1"/></material>
  <link name="body"><inertial><mass value="4"/>{INERTIA.format(0.05)}</inertial>
    <visual><geometry><mesh filename="package://table_description/meshes/top.obj" scale=".001 .001 .001"/></geometry>
      <material name="wood"/></visual>
    <collision><geometry><box size=".5 .3 .08"/></geometry></collision></link>
  <link name="imu"/>
  <joint name="imu_mount" type="fixed"><parent link="body"/><child link="imu"/><origin xyz="0 0 .05"/></joint>
  {"".join(leg(name, *place) for name, place in LEGS.items())}
</robot>"""

CRAWLER = """<mujoco model="crawler"><compiler angle="degree" meshdir="parts"/><option timestep="0.002"/>
<asset><mesh name="top" file="top.obj" scale=".3 .2 .05"/></asset>
<default><default class="leg"><geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2"/><joint axis="0 1 0"
  range="-60 60"/></default></default>
<worldbody><geom name="ground" type="plane" size="0 0 1"/>
<body name="hull" pos="0 0 .3"><freejoint/><geom type="mesh" mesh="top" pos="-.15 -.1 0" mass="2"/>
<body name="a" childclass="leg" pos=".15 .1 0"><joint name="a"/><geom/></body>
<body name="b" childclass="leg" pos=".15 -.1 0"><joint name="b"/><geom/></body>
<body name="c" childclass="leg" pos="-.15 .1 0"><joint name="c"/><geom/></body>
<body name="d" childclass="leg" pos="-.15 -.1 0"><joint name="d"/><geom/></body></body></worldbody>
<actuator><motor name="push_d" joint="d" gear="3" ctrlrange="-2 2"/><motor name="push_c" joint="c" gear="3"
 ctrlrange="-2 2"/><position name="hold_a" joint="a" kp="20" kv="1"/><position name="hold_b" joint="b" kp="20" kv="1"/>
</actuator>
<sensor><gyro name="spin" site="middle"/></sensor>
<keyframe><key name="home" qpos="0 0 .22 1 0 0 0 .1 .1 -.1 -.1"/></keyframe></mujoco>""".replace(
    "<freejoint/>", '<freejoint/><site name="middle"/>'
)

CAD = (
    CRAWLER.replace(
        '<body name="hull" pos="0 0 .3"><freejoint/>',
        '<body name="cad" pos="0 0 .05" quat=".7071068 .7071068 0 0"><freejoint/><inertial pos="0 0 0" mass=".001" '
        'diaginertia="1e-5 1e-5 1e-5"/><body name="hull" pos="0 .25 0" quat=".7071068 -.7071068 0 0">',
    )
    .replace("</body></worldbody>", "</body></body></worldbody>")
    .replace('qpos="0 0 .22 1 0 0 0', 'qpos="0 0 -.03 .7071068 .7071068 0 0')
)
"""The crawler, whose base is a frame without mass, below the floor and with its y axis up."""


def write_table(folder: Path, text: str = TABLE) -> Path:
    """The URDF, as a ROS package has it: urdf/ beside meshes/."""
    for name in ("urdf", "meshes"):
        (folder / "table_description" / name).mkdir(parents=True, exist_ok=True)
    (folder / "table_description" / "meshes" / "top.obj").write_text(BOX)
    file = folder / "table_description" / "urdf" / "table.urdf"
    file.write_text(text)
    return file


def write_crawler(folder: Path, text: str = CRAWLER) -> Path:
    """The MJCF, with its mesh in a folder of its own."""
    (folder / "parts").mkdir(exist_ok=True)
    (folder / "parts" / "top.obj").write_text(BOX)
    (folder / "crawler.xml").write_text(text)
    return folder / "crawler.xml"


def write_cad(folder: Path) -> Path:
    """The crawler with the base of a drawing program."""
    return write_crawler(folder, CAD)
