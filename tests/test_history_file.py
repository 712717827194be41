"""The points of the plots over a restart: kept as they were, or set aside, and never in the way of a start."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from livegym.serve import history_file
from livegym.serve.history import CAPACITY, PATHS, Points
from livegym.serve.history_file import HistoryFile
from tests.patience import until

NOW = 1.7e9


def feed(points: Points, first: int, count: int, step: float = 7.0) -> None:
    for number in range(first, first + count):
        value = None if number % 9 == 0 else number / 7
        points.add({"t": NOW + step * number, "reward": value, "version": number, "latency_p99": 1e-3 * number})


def restarted(path) -> Points:
    points = Points()
    with HistoryFile(path, points):
        pass
    return points


@pytest.mark.parametrize("count", [1, 5, 3000])
def test_after_a_restart_the_plots_go_on_as_if_there_had_been_none(count, tmp_path):
    path, through = tmp_path / "history.json", Points()
    with HistoryFile(path, before := Points()):
        for points in (before, through):
            feed(points, 0, count)
    after = Points()
    with HistoryFile(path, after):
        assert after.recent == tuple({**point, "seq": k} for k, point in enumerate(through.recent, start=1))
        assert after.earlier() == through.earlier()
        for points in (after, through):  # also the mean that was open
            feed(points, count, 700)
        assert after.earlier() == through.earlier()
        assert [point["t"] for point in after.since(0)] == [point["t"] for point in through.since(0)]
    assert path.stat().st_size < 1_000_000


def test_the_file_is_bounded_as_the_memory_is(tmp_path):
    path = tmp_path / "history.json"
    with HistoryFile(path, points := Points()):
        feed(points, 0, 2 * CAPACITY, step=60.0)
    content = json.loads(path.read_text())
    assert {name: len(columns["t"]) for name, columns in content.items() if name != "format"} == {
        "recent": CAPACITY, "10": 720, "60": 2 * CAPACITY - 1,
    }  # fmt: skip
    content["recent"] = {"t": [NOW + k for k in range(5 * CAPACITY)], "reward": [0.5] * (5 * CAPACITY), "gone": []}
    content["recent"]["gone"] = content["recent"]["t"]  # a name of another release
    content["7"] = content["10"]  # a tier of another release
    path.write_text(json.dumps(content))
    points = restarted(path)
    assert len(points.recent) == CAPACITY
    assert set(points.recent[0]) == {"seq", "t", *PATHS}
    assert (points.recent[0]["reward"], points.recent[0]["loss"]) == (0.5, None)
    assert set(points.thinned) == {10.0, 60.0}


GOOD = {"t": [1.0, 2.0], "reward": [0.5, None]}
DAMAGED = {
    "empty": "", "broken off": '{"format":1,"recent":{"t":[1,', "a list": "[]", "no text": b"\xff\xfe",
    "another format": json.dumps({"format": 2, "recent": GOOD}), "no points": '{"format":1}',
    "unequal": json.dumps({"format": 1, "recent": {**GOOD, "loss": [1]}}),
    "no times": json.dumps({"format": 1, "recent": {"reward": [1]}}),
    "unknown times": json.dumps({"format": 1, "recent": {"t": [1, None]}}),
    "NaN": json.dumps({"format": 1, "recent": {"t": [1.0], "reward": [float("nan")]}}),
    "a text": json.dumps({"format": 1, "recent": {"t": [1.0], "reward": ["1"]}}),
    "true": json.dumps({"format": 1, "recent": {"t": [1.0], "reward": [True]}}),
    "of many digits": json.dumps({"format": 1, "recent": {"t": [1.0], "version": [10**400]}}),
    "no column": json.dumps({"format": 1, "recent": {"t": 1}}), "no tier": json.dumps({"format": 1, "recent": 7}),
    "odd tier": json.dumps({"format": 1, "recent": GOOD, "ten": GOOD}), "nested": "[" * 100_000,
    "large": json.dumps({"format": 1, "recent": GOOD}) + " " * 10_000,
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_set_aside_and_the_plots_begin_anew(name, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(history_file, "LARGEST", 9_000 if name == "large" else history_file.LARGEST)
    content = DAMAGED[name]
    path = tmp_path / "history.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    damaged = path.read_bytes()
    points = Points()
    with HistoryFile(path, points):
        assert points.since(0) == []
        feed(points, 0, 3)
    (record,) = (record for record in caplog.records if record.levelno == logging.WARNING)
    assert f"{path} is damaged (" in record.getMessage()
    assert "the plots begin again; it is now history.json.damaged" in record.getMessage()
    assert (tmp_path / "history.json.damaged").read_bytes() == damaged
    assert len(restarted(path).recent) == 3


def test_after_the_clock_was_set_back_no_point_is_lost(tmp_path, caplog):
    path = tmp_path / "history.json"
    with HistoryFile(path, before := Points()):
        feed(before, 0, 900)
        feed(before, 900 - 515, 900)  # an hour back
    after = restarted(path)
    assert caplog.records == []
    times = [point["t"] for point in after.since(0)]
    assert times == sorted(point["t"] for point in before.since(0))
    assert len(after.earlier()["t"]) > 200
    assert after.earlier()["t"] == sorted(after.earlier()["t"])


def test_a_file_that_cannot_be_written_is_told_once_and_stops_nothing(tmp_path, caplog):
    path = tmp_path / "history.json"
    with HistoryFile(path, points := Points()) as file:
        feed(points, 0, 3)
        path.mkdir()
        file.write()
        file.write()
    told = [record.getMessage() for record in caplog.records]
    assert ["could not be written" in text for text in told] == [True]


def test_a_file_that_cannot_be_read_is_left_as_it_is(tmp_path, caplog):
    """It was replaced a minute later."""
    path = tmp_path / "history.json"
    path.symlink_to(path)  # which cannot be read, even by root
    with HistoryFile(path, points := Points()) as file:
        feed(points, 0, 3)
        file.write()
    assert path.is_symlink()
    (told,) = [record.getMessage() for record in caplog.records]
    assert f"{path} cannot be read (" in told
    assert history_file.NOT_KEPT in told


def test_a_damaged_file_that_cannot_be_set_aside_is_left_as_it_is(tmp_path, caplog):
    path = tmp_path / "history.json"
    for number in ("", *range(2, history_file.ASIDE)):
        path.write_text(f"damaged {number}")
        restarted(path)
    path.write_text("one more")
    caplog.clear()
    with HistoryFile(path, points := Points()) as file:
        feed(points, 0, 3)
        file.write()
    assert path.read_text() == "one more"
    (told,) = [record.getMessage() for record in caplog.records]
    assert (
        f"cannot be renamed (there are {history_file.ASIDE - 1} damaged ones already). {history_file.NOT_KEPT}" in told
    )
    assert (tmp_path / "history.json.damaged").read_text() == "damaged "
    assert (tmp_path / "history.json.damaged9").read_text() == "damaged 9"


def test_a_write_that_does_not_end_is_told(tmp_path, caplog, monkeypatch):
    writes, goes_on = threading.Event(), threading.Event()

    def hangs(path, text):
        writes.set()
        goes_on.wait()

    monkeypatch.setattr(history_file, "atomic_write_text", hangs)
    monkeypatch.setattr(history_file, "STOP_S", 0.01)
    with HistoryFile(tmp_path / "history.json", Points(), every=0.001):
        writes.wait()
    goes_on.set()
    assert ["the plots may lack the last minute" in record.getMessage() for record in caplog.records] == [True]


def test_it_is_written_while_the_run_goes_on(tmp_path):
    path = tmp_path / "history.json"
    with HistoryFile(path, points := Points(), every=0.01):
        feed(points, 0, 3)
        until(lambda: path.exists() and len(json.loads(path.read_text())["recent"]["t"]) == 3)
