"""The protocol's messages as a JSON Schema, from the same models that check and make them.

schema = schema_of(reader.observe_schema, reader.reward_schema)      # a document of JSON Schema 2020-12
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from livegym.serve.messages import Answers, ErrorMessage, LearningMessage

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(observe: type[BaseModel], reward: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of all messages of one task: what clients send, and in `$defs` also the answers to it."""
    sent = (observe, reward, LearningMessage)
    refs, made = models_json_schema(
        [*((model, "validation") for model in sent), (Answers, "serialization"), (ErrorMessage, "serialization")]
    )
    return {
        "$schema": DIALECT,
        "title": "livegym online, version 1",
        "description": "A message to /observe, /reward or /learning. Over the WebSocket, `type` is required. The "
        "answers are Answers or ErrorMessage.",
        "anyOf": [refs[(model, "validation")] for model in sent],
        "$defs": made["$defs"],
    }
