"""What is watched over in every test is noticed: processes, files in the checkout, and what cannot be logged."""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import hypothesis
import pytest

from tests import hygiene
from tests.leash import Leash, marked
from tests.patience import until

ROOT = Path(__file__).parent.parent
KILLED = """
import subprocess
from tests.leash import Leash
leash = Leash()
subprocess.Popen(["bash", "-c", "while true; do sleep 600; done"], start_new_session=True)
print(leash.mark, flush=True)
subprocess.run(["sleep", "600"])
"""


def test_examples_of_a_test_have_no_time_limit():
    """Hypothesis has one of 0.2 s otherwise."""
    assert hypothesis.settings.default.deadline is None


def test_what_tests_have_started_ends_with_them_even_if_they_are_killed():
    tests = subprocess.Popen([sys.executable, "-c", KILLED], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    mark = tests.stdout.readline().strip()
    until(lambda: len(marked(mark)) == 3)  # bash and its sleep in another session, and a sleep
    tests.send_signal(signal.SIGKILL)
    tests.wait()
    until(lambda: not marked(mark))


def test_a_process_that_is_left_is_named_with_its_test_and_ended(monkeypatch):
    monkeypatch.setenv("LIVEGYM_TESTS", "")  # to be as it was again
    leash = Leash()
    child = subprocess.Popen(["sleep", "600"])
    (left,) = leash.left()
    assert left.startswith(f"{child.pid}: sleep 600")
    assert "test_a_process_that_is_left_is_named" in left
    leash.close()
    assert child.wait() == -signal.SIGKILL


def test_what_is_written_into_the_checkout_is_named_with_its_test(tmp_path, monkeypatch):
    monkeypatch.setattr(hygiene, "ROOT", tmp_path)
    for name in ("kept", "changed", "gone"):
        (tmp_path / name).write_text(name)
    os.utime(tmp_path / "changed", (0, 0))
    checkout = hygiene.Checkout()
    begin = time.time()
    (tmp_path / "changed").write_text("more")
    (tmp_path / "gone").unlink()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").touch()
    (tmp_path / "runs").mkdir()
    checkout.ran(pytest.TestReport("a.py::test_a", ("", 0, ""), {}, "passed", None, "call", (), 1, begin, begin + 60))
    changed, gone, runs = checkout.written()
    assert changed == "changed: while a.py::test_a ran"
    assert gone == "gone: it is gone"
    assert runs == "runs: while a.py::test_a ran"


def test_what_cannot_be_logged_is_a_fault():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    stream.close()
    handler.handle(logging.LogRecord("late", logging.WARNING, "", 0, "last words", None, None))
    (message,) = hygiene._unlogged
    hygiene._unlogged.clear()
    assert "late: 'last words' could not be logged" in message
    assert "closed file" in message
