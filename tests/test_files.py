"""Files are complete or absent; JSON is strict; full disks and refusals leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from livegym.utils import files
from livegym.utils.files import atomic_write_bytes, atomic_write_text, clean_temporaries, read_json_dict, strict_json
from tests.patience import until

pytest_plugins = ["disk_fixtures"]
ROOT = Path(__file__).resolve().parent.parent


def test_a_written_file_holds_the_bytes_and_nothing_else_lies_beside_it(tmp_path):
    atomic_write_bytes(tmp_path / "a.bin", b"one")
    atomic_write_bytes(tmp_path / "a.bin", b"two")
    assert (tmp_path / "a.bin").read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_a_file_gets_the_permissions_of_the_umask(tmp_path):
    old = os.umask(0o022)
    try:
        atomic_write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(old)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o644


def test_a_full_disk_leaves_the_old_file_and_no_temporary(small_disk):
    target = small_disk / "a.bin"
    atomic_write_bytes(target, b"old")
    with pytest.raises(OSError, match="No space"):
        atomic_write_bytes(target, bytes(4_000_000))
    assert target.read_bytes() == b"old"
    assert os.listdir(small_disk) == ["a.bin"]


def test_a_failing_rename_leaves_no_temporary(tmp_path):
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(OSError, match="directory"):
        atomic_write_text(tmp_path / "a.txt", "x")
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_reader_never_sees_a_part_while_a_writer_is_killed(tmp_path):
    target = tmp_path / "a.bin"
    code = (
        "import sys; from pathlib import Path; from livegym.utils.files import atomic_write_bytes\n"
        "while True:\n"
        "    for b in (b'x', b'y'): atomic_write_bytes(Path(sys.argv[1]), b * 300_000)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(target)], cwd=ROOT)
    until(target.exists)
    flips = 0
    last = target.read_bytes()
    while flips < 20:
        content = target.read_bytes()
        assert content in (b"x" * 300_000, b"y" * 300_000)
        assert child.poll() is None
        flips += content != last
        last = content
    child.send_signal(signal.SIGKILL)
    child.wait()
    leftovers = [name for name in os.listdir(tmp_path) if name != "a.bin"]
    assert all(name.startswith(".") and name.endswith(".tmp") for name in leftovers)
    assert sorted(p.name for p in clean_temporaries(tmp_path)) == sorted(leftovers)


def test_only_temporaries_of_dead_writers_are_cleaned(tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    dead = tmp_path / f".a.pth.{gone.pid}.0123abcd.0.tmp"
    alive = tmp_path / f".a.pth.{os.getppid()}.0123abcd.0.tmp"
    ours = files.temporary_name(tmp_path / "a.pth")
    reused_pid = tmp_path / f".a.pth.{os.getpid()}.00000000.0.tmp"
    foreign = [tmp_path / ".unison.a.pth.1234.unison.tmp", tmp_path / ".a.pth.Xy12Zq", tmp_path / "a.pth"]
    for path in (dead, alive, ours, reused_pid, *foreign):
        path.write_bytes(b"")
    assert set(clean_temporaries(tmp_path)) == {dead, reused_pid}
    assert all(path.exists() for path in (alive, ours, *foreign))


def test_json_is_strict_and_plain():
    value = {
        "nan": float("nan"),
        "inf": [float("-inf"), np.float64("inf")],
        "numpy": (np.float32(0.5), np.int64(3), np.bool_(True), np.array([1.0, np.nan])),
        "torch": [torch.tensor(2.5), torch.tensor([1, 2])],
        "path": Path("runs/x"),
        "text": "grün \udc80",
        3: None,
    }
    text = strict_json(value)
    parsed = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert parsed == {
        "nan": None,
        "inf": [None, None],
        "numpy": [0.5, 3, True, [1.0, None]],
        "torch": [2.5, [1, 2]],
        "path": "runs/x",
        "text": "grün \udc80",
        "3": None,
    }
    assert text.encode("utf-8")
    assert text.splitlines()[1] == '  "nan": null,'  # in the order in which it was said


def test_json_refuses_what_it_has_no_word_for():
    with pytest.raises(TypeError, match="object cannot be written as JSON"):
        strict_json({"a": [object()]})


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, None])
def test_reading_a_broken_json_file_gives_an_empty_mapping(tmp_path, content):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    assert read_json_dict(path) == {}
