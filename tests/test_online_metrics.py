"""Numbers for Prometheus and TensorBoard, and the points of the plots: true, finite, and bounded at any age."""

from __future__ import annotations

import math
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from livegym.serve.history import CAPACITY, PATHS, Points, point_of
from livegym.serve.metrics import EVERY, EVERY_LATER, LATER, NUMBERS, PREFIX, STATES, Curves, Readings, table
from livegym.utils.files import strict_json
from livegym.web.metrics import registry_of, text_of
from tests.online_status import COMPONENTS, full_status, merged

SECTION_6 = {
    "training_steps_total": 820, "batches_trained_total": 822, "average_batch_size": 31.5, "average_loss": 0.35,
    "buffer_size": 1100, "pending_experiences": 57, "experiences_with_rewards_total": 1150,
    "current_model_version": 41, "training_steps_per_second": 0.98, "average_training_time_seconds": 0.041,
    "training_utilization": 0.041,
}  # fmt: skip
"""The fields of TrainingMetrics, as `full_status` has them; 41 ms are 0.041 s."""
COUNTERS = {PREFIX + number.name for number in NUMBERS if number.kind == "counter"}
DOCUMENT = Path(__file__).parent.parent / "docs" / "continuous.md"


def samples(readings):
    """{(name, labels as sorted pairs): value} of what `/metrics` would say."""
    text = text_of(registry_of(readings)).decode()
    families = text_string_to_metric_families(text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def read(status):
    return samples(Readings(lambda: status))


def unknown(status):
    """The same status with null for every number."""
    return {
        k: unknown(v) if isinstance(v, dict) else None if isinstance(v, (int, float)) else v for k, v in status.items()
    }


@pytest.mark.parametrize("name", SECTION_6)
def test_every_field_of_the_document_is_there(name):
    assert read(full_status())[PREFIX + name, ()] == pytest.approx(SECTION_6[name])


def test_gate_reward_and_latency_are_there_in_seconds_and_with_labels():
    found = read(full_status())
    assert found[PREFIX + "decision_latency_seconds", (("of", "p99"),)] == pytest.approx(0.0024)
    assert found[PREFIX + "verdicts_total", (("verdict", "WAIT"),)] == 230
    assert found[PREFIX + "rewards_refused_total", (("kind", "late"),)] == 5
    assert found[PREFIX + "gate_agreement", ()] == 0.93
    assert found[PREFIX + "streams", ()] == 3
    for name, value in COMPONENTS.items():
        assert found[PREFIX + "reward_component_mean", (("component", name),)] == value
    states = {state: found[PREFIX + "trainer_state", (("state", state),)] for state in STATES}
    assert states == {**dict.fromkeys(STATES, 0.0), "training": 1.0}


def test_each_number_is_once_in_the_list_and_only_counters_end_in_total():
    keys = [(number.name, number.value) for number in NUMBERS]
    assert len(set(keys)) == len(keys)
    tags = [number.tag for number in NUMBERS if number.tag]
    assert len(set(tags)) == len(tags)
    assert {name for name, _ in read(full_status()) if name.endswith("_total")} == COUNTERS


def test_every_number_of_the_status_is_in_the_list_or_no_number_to_follow():
    """A field that is added to the status must be added to the list."""
    left = {
        "now",
        "refreshed",
        "playSpeed",
        "serving.made",
        "serving.swapping",
        "serving.history",
        "trainer.pid",
        "decisions.latency_ms",
    }

    def places(status, before=""):
        for name, value in status.items():
            path = f"{before}{name}"
            if path in ("by_stream", "versions"):  # as labels, these names would have no bound
                continue
            if isinstance(value, dict) and path not in ("buffer.refused", "rewards.components"):
                yield from places(value, f"{path}.")
            elif isinstance(value, (int, float, dict)) and path not in left:
                yield f"{path}.*" if isinstance(value, dict) else path

    assert set(places(full_status())) == {number.path for number in NUMBERS}


def test_what_is_not_known_or_not_finite_is_left_out():
    status = merged(full_status(), {"trainer": {"loss": None, "average_loss": math.nan}, "rewards": {"mean": math.inf}})
    found = read(status)
    for name in ("loss", "average_loss", "reward_mean"):
        assert (PREFIX + name, ()) not in found
    assert all(math.isfinite(value) for value in found.values())
    assert {name for name, _ in read(unknown(full_status()))} == {PREFIX + "trainer_state"}
    assert read({}) == {}


def test_counters_keep_what_was_known_of_them_while_it_is_not():
    """They fell to 0 while a trainer was being started, which looks like all its steps once more."""
    status = full_status()
    readings = Readings(lambda: status)
    before = {key: value for key, value in samples(readings).items() if key[0] in COUNTERS}
    status = unknown(status)
    assert {key: value for key, value in samples(readings).items() if key[0] in COUNTERS} == before
    steps = PREFIX + "training_steps_total", ()
    for reported, shown in ((900, 900), (850, 900), (None, 900), (899, 900), (901, 901)):  # a checkpoint's is lower
        status = full_status()
        status["trainer"]["training_steps"] = reported
        assert samples(readings)[steps] == shown


def curves_of(directory):
    found = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    found.Reload()
    return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_curves_have_a_point_for_what_is_new_and_gaps_for_what_is_not_known(tmp_path):
    clock = [0.0]
    curves = Curves(tmp_path, clock=lambda: clock[0])
    status = full_status()
    assert curves.update(status)
    assert not curves.update(merged(status, {"trainer": {"loss": 9.0}}))  # the second is not over
    for seconds, new in (
        (1, {"trainer": {"training_steps": 830, "loss": 0.25}}),
        (2, {"trainer": {"training_steps": 840, "loss": None, "average_loss": math.nan}}),
        (3, {"buffer": {"added": 1300}, "decisions": {"send_rate": 0.9}}),
    ):
        clock[0] += 1
        status = merged(status, new)
        assert curves.update(status), seconds
    curves.close()
    found = curves_of(tmp_path)
    assert found["online/loss"] == [(820, pytest.approx(0.31)), (830, pytest.approx(0.25))]
    assert found["online/average_loss"] == [(820, pytest.approx(0.35)), (830, pytest.approx(0.35))]
    assert found["online/send_rate"] == [(1150, pytest.approx(0.81)), (1300, pytest.approx(0.9))]
    assert found["online/reward_component/location"][0] == (1150, pytest.approx(-0.08))
    assert found["online/latency_ms/p99"][0] == (1150, pytest.approx(2.4))


def test_after_an_hour_fewer_points_are_written(tmp_path):
    clock = [0.0]
    curves = Curves(tmp_path, clock=lambda: clock[0])
    written = []
    for second in (*range(50), *range(round(LATER), round(LATER) + 100)):
        clock[0] = float(second)
        written += [second] if curves.update({}) else []
    curves.close()
    steps = np.diff(written)
    assert set(steps[:49]) == {EVERY}
    assert set(steps[50:]) == {EVERY_LATER}
    assert len(steps[50:]) == 9


def test_older_points_are_thinned_to_means():
    """A point a second, 10 of them; the last 3 are kept, and means over 2 s of the 4 s before, and over 4 s before."""
    points = Points(capacity=3, tiers=((2.0, 3), (4.0, 10)))
    for second in range(100, 112):
        loss = None if second in (104, 105) else float(second)
        points.add({"t": float(second), "loss": loss, "version": second})
    assert [p["t"] for p in points.since(0)] == [109.0, 110.0, 111.0]
    earlier = points.earlier()
    assert earlier["seconds"] == [4.0, 2.0, 2.0]
    assert earlier["t"] == [102.0, 105.0, 107.0]  # the middles of 100 to 104, 104 to 106, 106 to 108
    assert earlier["loss"] == [101.5, None, 106.5]
    assert earlier["version"] == [103, 105, 107]  # the last one: no version is half of two
    assert Points().earlier() == {name: [] for name in ("t", "seconds", *PATHS)}


def test_points_have_numbers_in_order_and_null_for_what_is_not_known():
    points = Points(capacity=3)
    assert points.since(0) == []
    for loss in (1.0, math.nan, None, np.float32(0.123456789)):
        points.add({"t": 5.004, "loss": loss})
    assert [(p["seq"], p["loss"]) for p in points.since(0)] == [(2, None), (3, None), (4, 0.123457)]
    assert [p["seq"] for p in points.since(3)] == [4]
    assert points.since(4) == points.since(99) == []
    assert set(points.since(3)[0]) == {"seq", "t", *PATHS}
    assert points.since(3)[0]["t"] == 5.0
    with pytest.raises(ValueError, match=r"cannot have \['los'\]\. Allowed: t, loss"):
        points.add({"los": 1.0})


def test_a_point_has_the_numbers_of_its_status():
    point = point_of(full_status())
    assert {name: point[name] for name in ("loss", "send_rate", "reward", "expected", "latency_p99", "version")} == {
        "loss": 0.31, "send_rate": 0.81, "reward": 0.52, "expected": 0.48, "latency_p99": 2.4, "version": 41,
    }  # fmt: skip
    points = Points()
    points.add(point_of({}))  # nothing is known yet
    assert points.since(0)[0]["loss"] is None


def test_points_without_end_take_the_room_of_six_hundred():
    points, values = Points(), {**point_of(full_status()), "t": 1.7e9}
    tracemalloc.start()
    for _ in range(2 * CAPACITY):
        points.add(values)
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(20_000):
        points.add(values)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000
    kept = points.since(0)
    assert (len(kept), kept[-1]["seq"]) == (CAPACITY, 20_000 + 2 * CAPACITY)
    assert len(strict_json(kept, indent=None)) < 200_000


def test_who_reads_while_points_are_added_sees_no_gap():
    points, over = Points(), threading.Event()

    def add():
        while not over.is_set():
            points.add({"t": 0.0, "loss": 1.0})

    writer = threading.Thread(target=add)
    writer.start()
    try:
        seq = 0
        for _ in range(2000):
            found = [point["seq"] for point in points.since(seq)]
            assert found == list(range(found[0], found[0] + len(found))) if found else True
            seq = found[-1] if found else seq
    finally:
        over.set()
        writer.join()


def test_the_table_of_the_document_is_what_the_code_says():
    written = table()
    assert all(f"`{number.path}`" in written for number in NUMBERS)
    assert written in DOCUMENT.read_text(), "put what serve.metrics.table() returns into docs/continuous.md"
