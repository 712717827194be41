"""The description of a policy for programs outside of livegym."""

from __future__ import annotations

import json

import pytest

from livegym.rl.interface import Action, Actuator, Block, Joint, Origin, PolicyInterface, State
from livegym.utils.errors import UserError

INTERFACE = PolicyInterface(
    task="Lift",
    observations=(Block("pose", 3, 2, "in m"), Block("targets", 2, inside=True), Block("touch", 1)),
    action=Action("Box", 2, None, meaning="moves the targets"),
    control_dt=0.02,
    physics_dt=0.005,
    decimation=4,
    joints=(Joint("slide", "slide", "m", (0.1,), (-1.0, 1.0)), Joint("free", "free", "m", (0.0,) * 7)),
    actuators=(Actuator("slide", "slide", "position", "m", (-1.0, 1.0), 1.0, 40.0, 2.0),),
    states=(State("targets", (2,), "float32", start=(0.5, 0.25), given=True),),
    origin=Origin(run="Lift_train_20260102_120008", version=7),
    lacks=("the stage",),
)


def test_it_survives_json():
    assert PolicyInterface.from_dict(json.loads(json.dumps(INTERFACE.to_dict()))) == INTERFACE


def test_columns_are_those_of_what_a_caller_gives():
    assert [block.name for block in INTERFACE.inputs] == ["pose", "touch"]
    assert INTERFACE.obs_width == 4
    assert INTERFACE.seen_width == 3 * 2 + 2 + 1
    assert INTERFACE.columns("touch") == slice(3, 4)
    assert INTERFACE.rate == 50.0


def test_a_block_that_the_graph_computes_has_no_columns():
    with pytest.raises(KeyError, match=r"targets: no such block. Allowed: pose, touch"):
        INTERFACE.columns("targets")


def test_later_keys_are_ignored_and_a_later_format_is_refused():
    data = INTERFACE.to_dict()
    assert PolicyInterface.from_dict({**data, "weather": "fine"}) == INTERFACE
    with pytest.raises(UserError, match="format 2; this livegym reads up to 1"):
        PolicyInterface.from_dict({**data, "format": 2})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data["observations"][0].update(width="3"), "Block.width is '3'"),
        (lambda data: data["observations"][0].update(width=0), "width of pose is 0"),
        (lambda data: data["observations"][0].update(history=True), "Block.history is 'True'"),
        (lambda data: data.update(control_dt=0), "control_dt is 0"),
        (lambda data: data.update(control_dt=float("nan")), "PolicyInterface.control_dt is 'nan'"),
        (lambda data: data.update(joints="none"), "Joint is 'none'"),
        (lambda data: data["action"].update(size=-1), "size of the action is -1"),
        (lambda data: data["states"][0].update(shape=[3]), "state targets does not fit its start"),
        (lambda data: data["states"][0].update(dtype="object"), "dtype object"),
        (lambda data: data["joints"][0].update(range=[1]), "Joint.range"),
    ],
)
def test_values_of_another_kind_are_refused_by_name(change, says):
    data = INTERFACE.to_dict()
    change(data)
    with pytest.raises(UserError, match=f"is not readable .*{says}"):
        PolicyInterface.from_dict(json.loads(json.dumps(data)))


@pytest.mark.parametrize("missing", ["task", "observations", "format"])
def test_what_cannot_be_read_says_why(missing):
    data = INTERFACE.to_dict()
    del data[missing]
    with pytest.raises(UserError, match=f"is not readable .*{missing}"):
        PolicyInterface.from_dict(data)
