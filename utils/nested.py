"""Values in nested mappings, such as a configuration or a status.

look_up(config, "task.curriculum.level")      # or None
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def look_up(content: Any, path: str, missing: Any = None) -> Any:
    """The value at a dotted path; `missing` if there is none."""
    found = content
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return missing
        found = found[name]
    return found
