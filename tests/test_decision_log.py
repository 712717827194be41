"""The decision log: every decision once, whole rows only, never more than its limit; and what is read back of a run."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import json
import logging
import os
import resource

import numpy as np
import pytest
import torch

from livegym.online import log_files
from livegym.online.chosen_log import extent_of
from livegym.online.decision_log import SEGMENTS, DecisionLog, row_type, segments_of
from livegym.online.log_files import read_file, to_jsonl, write_files, write_jsonl, write_parquet
from livegym.online.logged import LoggedDecisions, joined, no_decisions
from livegym.online.run_log import decisions_of, read_log
from livegym.online.stream_requests import Rewarded
from livegym.rl.spec import shape_hash
from livegym.rundir.checkpoint import CheckpointMeta, write_checkpoint
from livegym.rundir.run import create_run
from livegym.utils.errors import UserError
from tests.experiences import LAYOUT, complete, pending
from tests.test_live import spec_with
from tests.test_service import Setting, Sign, seen, setting  # noqa: F401

FIELDS = [f.name for f in dataclasses.fields(LoggedDecisions)]
ROW = row_type(2, 1, True).itemsize


def rows_in(folder) -> np.ndarray:
    return np.concatenate([np.zeros(0, row_type(2, 1, True)), *segments_of(folder)])


def same(one: LoggedDecisions, other: LoggedDecisions) -> bool:
    """Equal bit by bit, except that one NaN is like another."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in FIELDS]
    return all(a.dtype.kind == b.dtype.kind and np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)


def save_checkpoint(run, spec, model) -> None:
    """What tells a reader the sizes of observations and actions."""
    meta = CheckpointMeta(
        task=spec.task, run_id=run.run_id, version=1, epoch=1, frame=0, score=None, best_score=None,
        shape_hash=shape_hash(spec, model),
    )  # fmt: skip
    write_checkpoint(run.nn, {"model": model, "spec": spec.to_dict(), "config": {}}, meta)


def test_what_is_added_is_there_at_once(tmp_path):
    log = DecisionLog(tmp_path / "decisions", LAYOUT, 10**6)
    log.add(complete(1))
    log.add(dataclasses.replace(complete(2, stream="ö"), intervened=True))
    log.add(pending(3))
    rows = rows_in(log.folder)
    assert rows["it"]["decision"].tolist() == [1, 2, 3]
    assert rows["intervened"].tolist() == [False, True, False]
    assert rows["it"]["stream"].tolist() == [b"a", "ö".encode(), b"a"]
    assert rows["it"]["reward"].tolist()[:2] == [1.0, 2.0]
    assert np.isnan(rows["it"]["reward"][2])
    assert (log.added, log.missing) == (3, 0)


def test_without_a_limit_nothing_is_logged(tmp_path):
    DecisionLog(tmp_path / "decisions", LAYOUT, 0).add(complete(1))
    assert not (tmp_path / "decisions").exists()


def test_a_new_session_begins_a_segment(tmp_path):
    for number in (1, 2):
        log = DecisionLog(tmp_path / "decisions", LAYOUT, 10**6)
        log.add(complete(number))
        log.close()
    assert len(list(segments_of(tmp_path / "decisions"))) == 2
    assert rows_in(tmp_path / "decisions")["it"]["decision"].tolist() == [1, 2]


def test_the_oldest_segments_make_room(tmp_path):
    limit = 40 * ROW
    log = DecisionLog(tmp_path / "decisions", LAYOUT, limit)
    for number in range(200):
        log.add(complete(number))
        assert sum(path.stat().st_size for path in log.folder.iterdir()) <= limit
    kept = rows_in(log.folder)["it"]["decision"].tolist()
    assert kept == list(range(kept[0], 200))
    assert len(kept) > 40 * (SEGMENTS - 2) // SEGMENTS - SEGMENTS


def test_a_row_that_was_not_written_completely_is_left_out(tmp_path, caplog):
    log = DecisionLog(tmp_path / "decisions", LAYOUT, 10**6)
    for number in range(4):
        log.add(complete(number))
    (file,) = log.folder.iterdir()
    content = bytearray(file.read_bytes())
    content[-2 * ROW - 1] ^= 1  # the last byte of the second row
    file.write_bytes(content[:-5])
    assert rows_in(log.folder)["it"]["decision"].tolist() == [0, 2]
    assert caplog.messages == [f"{file}: 1 of 3 decisions are damaged, and left out."]  # an incomplete row is usual


def test_a_damaged_segment_is_left_out_with_a_warning(tmp_path, caplog):
    log = DecisionLog(tmp_path / "decisions", LAYOUT, 10**6)
    log.add(complete(1))
    (log.folder / "000000000.rows").write_bytes(b"nonsense" * 10)
    assert rows_in(log.folder)["it"]["decision"].tolist() == [1]
    assert "000000000.rows is damaged" in caplog.text


def test_a_folder_that_cannot_be_written_costs_decisions_and_not_the_run(tmp_path, caplog):
    (tmp_path / "decisions").write_text("a file")
    log = DecisionLog(tmp_path / "decisions", LAYOUT, 10**6)
    with caplog.at_level(logging.WARNING):
        log.add(complete(1))
        log.add(complete(2))
    assert (log.added, log.missing) == (0, 2)
    assert caplog.text.count("decisions cannot be logged") == 1
    (tmp_path / "decisions").unlink()
    log.add(complete(3))
    assert rows_in(log.folder)["it"]["decision"].tolist() == [3]


def test_every_decision_of_a_run_is_read_once(setting):  # noqa: F811
    """Completed ones, excluded ones, those without a reward, and those that wait over a stop."""
    here = setting(Sign(), pending_ttl_s=10.0)
    save_checkpoint(here.run, spec_with(), {"weight": torch.zeros(1)})
    (first,) = here.ask(seen("a", 1))
    (second,) = here.ask(seen("a", 2, reward=0.5), seen("b", 9), clock=1.0)[:1]
    here.ask(Rewarded("a", second.decision, 1.5, done=True))
    here.memory.pending.expire(60.0)  # that of b
    here.live.pin("somebody")
    here.live.adopt()
    (pinned,) = here.ask(seen("c", 3), clock=61.0)
    here.ask(Rewarded("c", pinned.decision, 2.5, done=True))
    here.live.follow()
    here.live.adopt()
    (waiting,) = here.ask(seen("d", 4), clock=62.0)
    here.memory.save()
    data = decisions_of(here.run)
    assert len(set(data.decision.tolist())) == len(data) == 5
    assert {first.decision, second.decision, pinned.decision, waiting.decision} < set(data.decision.tolist())
    by = {stream: data.of([stream]) for stream in "abcd"}
    assert by["a"].reward.tolist() == [0.5, 1.5]
    assert by["a"].obs[:, 0].tolist() == [1.0, 2.0]
    assert by["a"].done.tolist() == [False, True]
    assert (by["c"].reward.tolist(), by["c"].intervened.tolist()) == ([2.5], [True])
    assert not by["b"].complete.any()
    assert not by["d"].complete.any()
    assert [len(by[stream]) for stream in "abcd"] == [2, 1, 1, 1]
    assert set(data.run.tolist()) == {here.run.name}
    assert same(read_log(here.run.path), data)
    (here.run.decisions / "000000001.rows").unlink()
    buffered = decisions_of(here.run)  # without the log: what the buffer has, and what waits
    assert buffered.of(["a"]).reward.tolist() == [0.5, 1.5]
    assert sorted(set(buffered.stream.tolist())) == ["a", "d"]


@pytest.mark.parametrize("file", ["replay.bin", "pending.npy", "decisions/000000001.rows"])
@pytest.mark.parametrize("spoil", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"\0" * len(b)])
def test_a_damaged_file_does_not_keep_the_other_decisions_from_being_read(setting, file, spoil, caplog):  # noqa: F811
    """A log that is whole must be saved, whatever happened to the buffer beside it."""
    here = setting()
    for number, stream in enumerate("ab"):
        (made,) = here.ask(seen(stream, 0.5))
        here.ask(Rewarded(stream, made.decision, float(number), done=True))
    here.ask(seen("c", 0.5))
    here.memory.save()
    save_checkpoint(here.run, spec_with(), {"weight": torch.zeros(1)})
    assert len(decisions_of(here.run)) == 3
    damaged = here.run.path / file
    damaged.write_bytes(spoil(damaged.read_bytes()))
    assert set("ab") <= set(decisions_of(here.run).stream.tolist())  # the buffer has what the log has lost
    assert damaged.name in caplog.text or damaged.suffix == ".rows"
    if file == "replay.bin":
        (here.run.decisions / "000000001.rows").unlink()
        with pytest.raises(UserError, match="its decisions cannot be read"):
            decisions_of(here.run)


def test_a_segment_of_another_task_is_left_out_with_a_warning(setting, caplog):  # noqa: F811
    here = setting()
    (made,) = here.ask(seen("a", 0.5))
    here.ask(Rewarded("a", made.decision, 1.0, done=True))
    save_checkpoint(here.run, spec_with(), {"weight": torch.zeros(1)})
    other = DecisionLog(here.run.decisions, LAYOUT, 10**6)
    other.add(complete(1))
    assert len(decisions_of(here.run)) == 1
    assert "it has other observations or actions" in caplog.text


def example() -> LoggedDecisions:
    """Numbers that are easily rounded: every field of six decisions of two streams, one of them unknown in parts."""
    rng = np.random.default_rng(0)
    n = 6
    data = LoggedDecisions(
        run=np.full(n, "Counting_continuous_20260102_120008"), run_id=np.array(["0e84"] * 5 + [""]),
        stream=np.array(["a", "b", "a", "b", 'ö"', "a"]),
        decision=2**40 + np.arange(n), time=1.8e9 + rng.random(n), clock=rng.random(n), version=np.arange(n),
        obs=rng.normal(size=(n, 3)).astype(np.float32), proposed=rng.normal(size=(n, 2)).astype(np.float32),
        executed=rng.normal(size=(n, 2)).astype(np.float32), log_prob=rng.normal(size=n).astype(np.float32),
        executed_log_prob=rng.normal(size=n).astype(np.float32), verdict=np.array([0, 1, 2, 1, 1, 1], np.int8),
        held=np.array([False, False, True, False, False, False]), expected=rng.normal(size=n).astype(np.float32),
        confidence=rng.random(n).astype(np.float32), reward=rng.normal(size=n).astype(np.float32),
        next_obs=rng.normal(size=(n, 3)).astype(np.float32), done=np.array([False] * 5 + [True]),
        intervened=np.array([False] * 4 + [True, False]),
    )  # fmt: skip
    data.expected[0] = data.reward[4] = data.next_obs[4] = np.nan
    data.obs[1, 1], data.reward[1] = np.float32(1e-45), np.float32(0.1)  # the least number there is
    return data


def line_with(**changes) -> str:
    """A line of a file of JSON lines that has wrong values."""
    content = io.BytesIO()
    to_jsonl(example()[:1], content)
    return json.dumps({**json.loads(content.getvalue()), **changes})


def with_choices(data: LoggedDecisions) -> LoggedDecisions:
    return dataclasses.replace(data, proposed=np.array([[7, 1]] * 6), executed=np.array([[3, 0]] * 6))


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("change", [lambda data: data, with_choices, lambda data: data[:0]])
def test_a_file_gives_back_every_bit(tmp_path, suffix, change):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    data, file = change(example()), tmp_path / f"decisions{suffix}"
    {".jsonl": write_jsonl, ".parquet": write_parquet}[suffix](data, file)
    back = read_file(file)
    assert len(back) == len(data)
    if len(data):
        assert same(back, data)
        assert same(read_log(tmp_path), data)


def test_a_line_is_plain_json(tmp_path):
    write_jsonl(example(), tmp_path / "decisions.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text("utf-8").splitlines()]
    assert tuple(lines[0]) == log_files.COLUMNS
    assert (lines[2]["verdict"], lines[2]["held"], lines[0]["expected"]) == ("WAIT", True, None)
    assert (lines[4]["reward"], lines[4]["next_obs"], lines[4]["complete"]) == (None, None, False)
    assert lines[0]["propensity"] == pytest.approx(np.exp(lines[0]["log_prob"]))


def test_other_programs_read_the_columns(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    write_parquet(example(), tmp_path / "decisions.parquet")
    table = parquet.read_table(tmp_path / "decisions.parquet")
    assert tuple(table.column_names) == log_files.COLUMNS
    assert table.column("verdict").to_pylist()[:3] == ["OFF", "SEND", "WAIT"]
    assert len(table.column("obs")[0].as_py()) == 3


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{}", "line 1 has no run"),
        ("nonsense", "line 1: Expecting value"),
        ("[1]", "line 1 is not an object"),
        (line_with(done="no"), 'line 1: done is "no", not true or false'),
        (line_with(version=True), "line 1: version is true, not a whole number"),
        (line_with(reward="1"), 'line 1: reward is "1", not a number or null'),
        (line_with(stream=3), "line 1: stream is 3, not text"),
    ],
)
def test_a_file_that_is_no_log_is_refused(tmp_path, content, says):
    (tmp_path / "decisions.jsonl").write_text(content)
    with pytest.raises(UserError, match=f"no log of decisions .{says}"):
        read_log(tmp_path)


def test_flipped_bits_are_never_read_as_numbers(tmp_path):
    """Each page has a checksum; without one, half of the flips were read as other numbers."""
    pytest.importorskip("pyarrow")
    data, file, rng = example(), tmp_path / "decisions.parquet", np.random.default_rng(0)
    write_parquet(data, file)
    content = file.read_bytes()
    for place in rng.integers(4, len(content), 150):
        spoiled = bytearray(content)
        spoiled[place] ^= 1 << rng.integers(8)
        file.write_bytes(spoiled)
        with contextlib.suppress(UserError):
            assert same(read_file(file), data)


def test_two_files_of_different_exports_are_not_taken_for_one(tmp_path):
    pytest.importorskip("pyarrow")
    write_parquet(example(), tmp_path / "decisions.parquet")
    late = dataclasses.replace(example(), reward=np.nan_to_num(example().reward, nan=1.5))  # one more reward has come
    for later in (example()[:3], late):
        write_jsonl(later, tmp_path / "decisions.jsonl")
        with pytest.raises(UserError, match=r"decisions.parquet and decisions.jsonl do not have the same decisions"):
            read_log(tmp_path)
        assert same(read_log(tmp_path / "decisions.jsonl"), later)
    wide = dataclasses.replace(example(), stream=example().stream.astype("U64"))
    write_jsonl(wide, tmp_path / "decisions.jsonl")  # the same in another export
    assert same(read_log(tmp_path), example())


def test_files_of_older_versions_have_no_digest_and_are_compared_by_their_number(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(log_files, "COLUMNS", log_files.COLUMNS[:-1])
    write_parquet(example(), tmp_path / "decisions.parquet")
    write_jsonl(example(), tmp_path / "decisions.jsonl")
    assert same(read_log(tmp_path), example())
    write_jsonl(example()[:3], tmp_path / "decisions.jsonl")
    with pytest.raises(UserError, match="do not have the same decisions"):
        read_log(tmp_path)


def test_files_get_their_names_together_or_not_at_all(tmp_path):
    (tmp_path / "decisions.jsonl").write_text("as before")

    def full(data, file):
        to_jsonl(data, file)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        write_files(example(), {tmp_path / "decisions.jsonl": to_jsonl, tmp_path / "decisions.other": full})
    assert (tmp_path / "decisions.jsonl").read_text() == "as before"
    assert [path.name for path in tmp_path.iterdir()] == ["decisions.jsonl"]


def test_a_disk_that_is_full_at_the_last_bytes_leaves_all_files_as_they_were(tmp_path):
    """The last bytes of a file are written when it is flushed: the other one was already replaced then."""
    paths = [tmp_path / f"decisions.{suffix}" for suffix in ("large", "small")]
    for path in paths:
        path.write_text("as before")

    def write(size):
        return lambda data, file: file.write(b"x" * size)

    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, most))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_files(example(), {path: write(n) for path, n in zip(paths, (3000, 10), strict=True)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    assert [path.read_text() for path in paths] == ["as before"] * 2
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(UserError, match="no such log"):
        read_log(tmp_path / "nothing")
    with pytest.raises(UserError, match="is a train run: only continuous runs log their decisions"):
        read_log(create_run(tmp_path, "Ant", "train").path)
    with pytest.raises(UserError, match="no usable checkpoint"):
        read_log(create_run(tmp_path, "Ant", "continuous").path)


def test_without_pyarrow_parquet_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"pip install 'livegym.export.'"):
        write_parquet(example(), tmp_path / "decisions.parquet")
    assert list(tmp_path.iterdir()) == []


def test_parts_of_a_log(tmp_path):
    data = example()
    assert data.of(["b"]).decision.tolist() == [2**40 + 1, 2**40 + 3]
    assert len(data.between(since=float(data.time.max()))) == 1
    assert len(data.between(until=float(data.time.max()))) == 5
    assert same(joined([data[3:], data, no_decisions(3, 2, False)]), data)
    other = dataclasses.replace(data, run=np.full(6, "Other_continuous_20260102_120008"), time=data.time - 2.0)
    assert same(joined([data[np.argsort(data.time)], other])[-6:], data[np.argsort(data.time)])


def test_a_clock_that_is_set_back_does_not_break_episodes():
    """Two streams in turn; before the fourth of eight decisions the clock goes back by 2.5 s."""
    n, base = 8, example()[np.zeros(8, int)]
    at = np.arange(n, dtype=float)
    obs = np.repeat(at[:, None] // 2, 3, axis=1).astype(np.float32)
    data = dataclasses.replace(
        base, stream=np.array(["a", "b"] * 4), decision=np.arange(n), time=at - 2.5 * (at >= 3), obs=obs,
        next_obs=obs + 1, done=np.zeros(n, bool),
    )  # fmt: skip
    assert joined([data[4:], data[:4]]).decision.tolist() == list(range(n))
    assert [(e.stream, e.observations[:, 0].tolist()) for e in data.episodes()] == [
        ("a", [0, 1, 2, 3, 4]),
        ("b", [0, 1, 2, 3, 4]),
    ]
    assert extent_of(data).startswith("8 decisions of 2 streams, from 1970-01-01")


def test_episodes_are_of_one_stream_and_end_where_the_log_does_not_go_on():
    """Stream a: 1 -> 2 -> 3, terminated; then 10 -> 11, and a gap to 20 -> 21. Stream b between them. By hand."""
    steps = [("a", 1, 2, False), ("b", 50, 51, False), ("a", 2, 3, True), ("a", 10, 11, False), ("a", 20, 21, False)]
    n = len(steps)
    base = example()[np.zeros(n, int)]
    data = dataclasses.replace(
        base, stream=np.array([s for s, *_ in steps]), decision=np.arange(n), time=np.arange(n, dtype=float),
        obs=np.array([[o] * 3 for _, o, _, _ in steps], np.float32), reward=np.arange(n, dtype=np.float32),
        next_obs=np.array([[o] * 3 for _, _, o, _ in steps], np.float32), done=np.array([d for *_, d in steps]),
        executed=np.full((n, 2), 3.0, np.float32),
    )  # fmt: skip
    arrays = data.arrays()
    assert arrays["observations"][:, 0].tolist() == [1, 2, 10, 20, 50]
    assert arrays["rewards"].tolist() == [0, 2, 3, 4, 1]
    assert arrays["terminals"].tolist() == [False, True, False, False, False]
    assert arrays["timeouts"].tolist() == [False, False, True, True, True]
    assert arrays["actions"].max() == 1.0  # as executed
    first, second, third, other = data.episodes()
    assert first.observations[:, 0].tolist() == [1, 2, 3]
    assert (first.terminations.tolist(), first.truncations.tolist()) == ([False, True], [False, False])
    assert (second.stream, second.observations[:, 0].tolist()) == ("a", [10, 11])
    assert third.truncations.tolist() == [True]
    assert other.stream == "b"
    assert example().arrays()["rewards"].shape == (4,)  # without the incomplete and the held one
    assert no_decisions(3, 2).episodes() == []
