"""A machine without a screen is told what to do instead."""

from __future__ import annotations

import sys

import pytest

from livegym.utils.errors import UserError
from livegym.viewers import display as display_module
from livegym.viewers.display import check_display


def no_display(monkeypatch, **env: str) -> str:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError) as refused:
        check_display()
    assert refused.value.exit_code != 0
    return str(refused.value)


def test_without_a_display_the_browser_is_named(monkeypatch):
    message = no_display(monkeypatch)
    assert "neither DISPLAY nor WAYLAND_DISPLAY" in message
    assert "config=test_stream" in message
    assert "ssh -X" in message


def test_a_display_that_is_not_there_is_named(monkeypatch):
    message = no_display(monkeypatch, DISPLAY=":4242")
    assert "DISPLAY=:4242 is set, but" in message
    assert "config=test_stream" in message


def test_a_display_that_does_not_answer_is_given_up(monkeypatch):
    monkeypatch.setattr(display_module, "PATIENCE", 0.01)
    assert "does not answer" in no_display(monkeypatch, DISPLAY=":4242")


def test_on_macos_the_launcher_is_named(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(sys, "argv", ["train.py", "config=test_viewer"])
    monkeypatch.delenv("MJPYTHON_BIN", raising=False)
    with pytest.raises(UserError, match=r"Run: mjpython train\.py config=test_viewer"):
        check_display()
    monkeypatch.setenv("MJPYTHON_BIN", "/somewhere")
    check_display()
