"""Writes docs/protocol.schema.json: the JSON Schema of the protocol, as the server of CartPole-v1 shows it.

python -m tools.protocol_schema
"""

from __future__ import annotations

from pathlib import Path

from livegym.rl.spec import PolicySpec
from livegym.serve.json_schema import schema_of
from livegym.serve.messages import Description
from livegym.serve.protocol import Reader
from livegym.tasks.base import Discrete
from livegym.utils.files import strict_json

OUT = Path(__file__).parent.parent / "docs" / "protocol.schema.json"
CARTPOLE = Description(PolicySpec("Spaces", (("observation", 4),), (), Discrete(2), 1.0))


def text() -> str:
    """Return the file's content."""
    reader = Reader(CARTPOLE)
    return strict_json(schema_of(reader.observe_schema, reader.reward_schema), indent=1) + "\n"


if __name__ == "__main__":
    OUT.write_text(text())
