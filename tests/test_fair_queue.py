"""Fair shares: among clients that want unequally much, and against those that take a new name for each message."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from livegym.utils.fair_queue import REMEMBERED, FairQueue


def taken(queue: FairQueue[str], count: int) -> list[str]:
    return [queue.take() for _ in range(count)]


def test_what_a_client_has_had_is_taken_into_account():
    queue = FairQueue[str]()
    queue.add(("10.0.0.7", "connection 1"), "its first message", cost=64)
    queue.add(("10.0.0.7", "connection 1"), "its second message", cost=64)
    queue.add(("10.0.0.9", "connection 2"), "the only message of another one", cost=64)
    assert (len(queue), queue.first) == (3, "its first message")
    assert taken(queue, 3) == ["its first message", "the only message of another one", "its second message"]
    assert not queue


def test_a_share_that_nobody_used_is_not_saved_up():
    queue = FairQueue[str]()
    for k in range(100):
        queue.add(("steady",), f"steady {k}", 1)
    taken(queue, 50)
    for k in range(3):
        queue.add(("late",), f"late {k}", 1)
    assert sorted(taken(queue, 6)) == ["late 0", "late 1", "late 2", "steady 50", "steady 51", "steady 52"]


def test_new_names_for_each_message_starve_nobody_and_are_forgotten():
    queue, waiting, served = FairQueue[str](), 20, []
    for k in range(waiting):
        queue.add(("here", f"name {k}"), "", 1)
    for _ in range(2):
        queue.add(("here", "honest"), "honest", 1)
    for k in range(30 * REMEMBERED):
        if queue.take():
            served.append(k)
            queue.add(("here", "honest"), "honest", 1)
        else:
            queue.add(("here", f"new name {k}"), "", 1)
    waits = [later - earlier for earlier, later in pairwise(served)]
    assert served[0] <= waiting + 1
    assert max(waits) <= 4 * waiting
    assert sum(waits) / len(waits) < 3 * waiting
    assert len(queue._root._waiting["here"]._finish) < 2 * REMEMBERED


def test_an_address_has_no_larger_share_because_it_has_more_connections_or_names():
    queue = FairQueue[str]()
    for k in range(60):
        for _ in range(20):
            queue.add(("10.0.0.7", f"connection {k}"), "crowd", 8)
            queue.add(("10.0.0.8", "HTTP", str(k)), "names", 8)
    for _ in range(100):
        queue.add(("10.0.0.8", "connection 1"), "beside names", 8)
        queue.add(("10.0.0.9", "connection 2"), "alone", 8)
    served = Counter(taken(queue, 120))
    assert all(abs(served[who] - right) <= 2 for who, right in (("crowd", 40), ("alone", 40))), served
    assert abs(served["names"] - served["beside names"]) <= 2, served


def test_who_asks_little_hardly_waits_for_many_that_always_ask():
    queue, waited = FairQueue[str](), []
    for k in range(60):
        for _ in range(200):
            queue.add(("greedy", str(k)), "greedy", 8)
    for _ in range(300):
        queue.add(("greedy", "modest"), "modest", 1)
        waited.append(0)
        while queue.take() == "greedy":
            waited[-1] += 1
        taken(queue, 3)
    assert max(waited) < 60
    assert sum(waited) / len(waited) < 10
