"""A spectator's page takes no orders, whatever is sent to it by hand."""

from __future__ import annotations

import json

import pytest

from livegym.play.board import Board
from livegym.play.controls import Controls
from livegym.viewers.browser.pages import Pages
from livegym.viewers.browser.protocol import REQUESTS, PageMessageError, ViewSettings
from livegym.web.access import Access, Role
from livegym.web.rates import TokenBucket
from livegym.web.visitors import Visitor

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
    access = Access(None, request.param)
    made = Pages(Board(), controls, access, dict, lambda page, look: looks.append(look))
    return made, controls, looks, Visitor(Role.SPECTATOR if request.param else Role.OPERATOR, 1)


@pytest.mark.parametrize("what", REQUESTS)
def test_an_order_is_refused_where_there_are_no_controls(pages, what):
    made, controls, _, visitor = pages
    text = json.dumps({"do": what, **ORDERS[what]})
    if visitor.may_control:
        made._do("page", visitor, text, TokenBucket(1, 1))
        assert [(type(asked), who) for asked, who in controls._requests] == [(REQUESTS[what], "operator 1")]
        return
    with pytest.raises(PageMessageError, match="read-only"):
        made._do("page", visitor, text, TokenBucket(1, 1))
    assert not controls._requests


def test_everybody_may_choose_how_to_see(pages):
    made, _, looks, visitor = pages
    asked = json.dumps({"do": "view", "env_id": 1, "show_all": False, "place_camera": True})
    made._do("page", visitor, asked, TokenBucket(1, 1))
    (look,) = looks
    assert isinstance(look, ViewSettings)
    assert (look.view.env_id, look.view.show_all, look.place_camera) == (1, False, True)
