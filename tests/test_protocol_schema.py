"""The JSON Schema of the protocol under an independent validator: it allows what the server takes, and little else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livegym.serve.protocol import MessageRefused, Reader
from livegym_client.wire import item_of
from tools.protocol_schema import CARTPOLE

DOCS = Path(__file__).parent.parent / "docs"
SCHEMA = json.loads((DOCS / "protocol.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
READER = Reader(CARTPOLE)
OBS = [0.0, 0.1, 0.0, -0.2]


def allowed(message) -> bool:
    return VALIDATOR.is_valid(message)


def taken(message) -> bool:
    """Whether the server's own reader takes the message."""
    text = json.dumps(message).encode()
    read = READER.observations if "observations" in message else READER.rewards
    try:
        read(text)
    except MessageRefused:
        return False
    return True


def observe(**more):
    return {"v": 1, "observations": [{"stream": "robot-1", "obs": OBS, **more}]}


def reward(**more):
    return {"v": 1, "rewards": [{"stream": "robot-1", "decision": 4294967297, "reward": 0.98, **more}]}


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(("name", "count"), [("protocol.md", 2), ("any-environment.md", 4)])
def test_the_documents_messages_are_allowed(name, count):
    text = (DOCS / name).read_text()
    found = re.findall(r"(?:-d|say observe|say reward) '(\{.*?\})'", text, re.DOTALL)
    assert len(found) == count
    for message in found:
        VALIDATOR.validate(json.loads(message))


@pytest.mark.parametrize(
    "message",
    [
        observe(), observe(sequence=7), observe(reward=-1.5, done=True), observe(episode="begin"), observe(learn=False),
        observe(executed=[1], executed_log_prob=-0.7), observe(part=0, reward=1.0), reward(), reward(done=True),
        reward(part=2), {"v": 1, "stream": "robot-1", "learn": False},
    ],
)  # fmt: skip
def test_what_the_server_takes_is_allowed(message):
    assert allowed(message)
    assert "learn" in message or taken(message)


@pytest.mark.parametrize(
    "message",
    [
        observe(obs=[0.0]), observe(obs=["a", 0, 0, 0]), observe(stream="-x"), observe(stream="a" * 65),
        observe(episode="end"), observe(rewards=1), observe(sequence="one"), observe(part=-1), reward(decision="one"),
        reward(reward="much"), {"v": 2, "observations": []}, {"observations": [{"stream": "a", "obs": OBS}]},
        {"v": 1, "rewards": [{"stream": "a", "reward": 1.0}]},
    ],
)  # fmt: skip
def test_what_the_server_refuses_is_not_allowed(message):
    assert not allowed(message)
    assert not taken(message)


@settings(max_examples=200, deadline=None)
@given(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}", fullmatch=True),
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=4, max_size=4),
    st.integers(0, 2**53 - 1),
    st.none() | st.floats(-100, 100),
    st.sampled_from([None, "done", "truncated"]),
)
def test_what_the_python_client_sends_is_allowed(stream, obs, number, earned, end):
    message = {"v": 1, "observations": [json.loads(item_of(stream, obs, number, earned, end, {}))]}
    VALIDATOR.validate(message)
    assert taken(message)
