"""A page without controls takes no orders, whatever is sent to it by hand."""

from __future__ import annotations

import json

import pytest

from livegym.play.board import Board
from livegym.play.controls import Controls
from livegym.viewers.browser.pages import Pages
from livegym.viewers.browser.protocol import REQUESTS, PageMessageError, ViewSettings
from livegym.web.scene_messages import TokenBucket

ORDERS = {
    "pause": {"on": True},
    "step": {},
    "speed": {"factor": 2.0},
    "restart": {"env_id": None},
    "push": {"env_id": 0, "body": "torso", "force": [1.0, 0.0, 0.0], "seconds": 0.1},
    "pin": {},
    "follow": {},
    "roll_back": {"label": None},
    "take_over": {"how": "blend", "blend_seconds": 1.0},
    "compare": {"first": 1, "second": 2},
    "end_compare": {},
    "record": {"on": True},
}


@pytest.fixture(params=[True, False], ids=["read only", "with controls"])
def pages(request):
    looks, controls = [], Controls()
    made = Pages(Board(), controls, request.param, dict, lambda page, look: looks.append(look))
    return made, controls, looks, request.param


@pytest.mark.parametrize("what", REQUESTS)
def test_an_order_is_refused_where_there_are_no_controls(pages, what):
    made, controls, _, read_only = pages
    text = json.dumps({"do": what, **ORDERS[what]})
    if not read_only:
        made._do("page", text, TokenBucket(1, 1))
        assert [type(asked) for asked in controls._requests] == [REQUESTS[what]]
        return
    with pytest.raises(PageMessageError, match="only shows"):
        made._do("page", text, TokenBucket(1, 1))
    assert not controls._requests


def test_everybody_may_choose_how_to_see(pages):
    made, _, looks, _ = pages
    made._do(
        "page", json.dumps({"do": "view", "env_id": 1, "show_all": False, "place_camera": True}), TokenBucket(1, 1)
    )
    (look,) = looks
    assert isinstance(look, ViewSettings)
    assert (look.view.env_id, look.view.show_all, look.place_camera) == (1, False, True)
