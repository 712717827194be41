"""Work in the background that must not end the whole, nor end unseen."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


def attempt(what: str, work: Callable[[], object]) -> bool:
    """Does `work`; whatever it raises is a bug, which is logged whole. Whether it went well."""
    try:
        work()
    except Exception:  # the last resort of a thread: it would die without anybody being told
        log.exception("%s failed", what)
        return False
    return True
