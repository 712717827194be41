"""The stand-in of loguru: methods beyond messages, which foreign code may use as with the real one."""

from __future__ import annotations

import pytest

from livegym.compat.loguru_standin import Logger


def divided(by: int) -> float:
    """A function that may fail."""
    return 1 / by


def test_what_catch_decorates_fails_into_the_log(caplog):
    logger = Logger()
    plain = logger.catch(divided)
    assert (plain(2), plain(0), plain.__name__) == (0.5, None, "divided")
    assert logger.catch(ZeroDivisionError, default=7.0, message="no quotient")(divided)(0) == 7.0
    assert [(record.name, record.levelname, record.message) for record in caplog.records] == [
        (__name__, "ERROR", "An error has been caught"),
        (__name__, "ERROR", "no quotient"),
    ]
    assert all(record.exc_info[0] is ZeroDivisionError for record in caplog.records)


def test_catch_lets_pass_what_it_is_not_for(caplog):
    logger, seen = Logger(), []
    with pytest.raises(ZeroDivisionError), logger.catch(ValueError):
        divided(0)
    with pytest.raises(ZeroDivisionError), logger.catch(exclude=ZeroDivisionError):
        divided(0)
    assert not caplog.records
    with pytest.raises(ZeroDivisionError), logger.catch(reraise=True, level="WARNING", onerror=seen.append):
        divided(0)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert isinstance(seen[0], ZeroDivisionError)


def test_levels_can_be_looked_up_and_added(caplog):
    logger = Logger()
    assert logger.level("SUCCESS").no == 25
    assert logger.level("REWARD", no=35, color="<blue>").no == 35
    logger.log("REWARD", "{} points", 3)
    logger.log("warning", "low")
    assert [(record.levelno, record.message) for record in caplog.records] == [(35, "3 points"), (30, "low")]
    with pytest.raises(ValueError, match=r"Level 'REWRAD' does not exist\. Allowed: TRACE, .*REWARD"):
        logger.log("REWRAD", "?")


def test_extra_fields_change_nothing(caplog):
    logger = Logger()
    with logger.contextualize(task="Pinch"):
        logger.patch(lambda record: record.update(a=1)).bind(b=2).warning("said")
    assert logger.contextualize(task="Pinch")(divided)(4) == 0.25
    assert caplog.messages == ["said"]
