"""One turn of the server's event loop: how much it lets through, whose, and how often it is woken for answers."""

from __future__ import annotations

import asyncio

from livegym.online.stream_requests import Accepted, Refusal
from livegym.serve.inbox import Inbox
from livegym.serve.intake import OVERHEAD, Intake, Sender
from livegym.serve.leases import StreamLeases
from livegym.serve.messages import Description
from livegym.serve.protocol import Reader
from livegym.web.turnstile import MOST_PAUSES, Turnstile
from tests.online_fixtures import SPEC
from tests.test_online_server import observe, reward

ONE = Sender("one", ("here", "one"))


def test_few_messages_are_let_through_in_a_turn_of_the_loop_and_clients_in_fair_shares():
    async def drive() -> list[list[str]]:
        turnstile, passed = Turnstile(4 * OVERHEAD), []

        async def enter(client, size=0):
            await turnstile.enter((client,), OVERHEAD + size)
            passed.append(client)

        crowd = [asyncio.create_task(enter("greedy")) for _ in range(12)]
        modest = asyncio.create_task(enter("modest"))
        turns = []
        while not all(task.done() for task in [*crowd, modest]):
            await asyncio.sleep(0)
            if passed:
                turns.append(list(passed))
                passed.clear()
        return turns

    turns = asyncio.run(drive())
    assert [len(turn) for turn in turns] == [4, 4, 4, 1]
    assert "modest" in turns[1]  # the first four were let through before it came


def test_a_large_message_is_let_through_alone_and_one_whose_client_has_left_takes_no_turn():
    async def drive() -> list[str]:
        turnstile, passed = Turnstile(2 * OVERHEAD), []

        async def enter(client, size=0):
            await turnstile.enter((client,), OVERHEAD + size)
            passed.append(client)

        tasks = [asyncio.create_task(enter("large", 64 * 1024))]
        tasks += [asyncio.create_task(enter(name)) for name in ("gone", "next", "last")]
        await asyncio.sleep(0)
        assert passed == ["large"]
        tasks[1].cancel()
        await asyncio.wait(tasks)
        return passed

    assert asyncio.run(drive()) == ["large", "next", "last"]


def test_a_message_that_does_not_have_to_wait_is_let_through_at_once():
    async def drive() -> bool:
        entering = Turnstile(1000).enter(("a",), 100)
        try:
            entering.send(None)  # one step of the coroutine
        except StopIteration:
            return True
        return False

    assert asyncio.run(drive())


def test_the_event_loop_is_woken_once_for_all_answers_that_come_meanwhile():
    async def drive() -> tuple[int, list[int]]:
        inbox, reader, loop = Inbox(), Reader(Description(SPEC)), asyncio.get_running_loop()
        intake = Intake(inbox, StreamLeases())
        waiting = [await intake.put("a", observe(f"s{k}"), reader.read, ONE) for k in range(5)]
        wake, woken = loop.call_soon_threadsafe, []
        loop.call_soon_threadsafe = lambda *given: woken.append(given) or wake(*given)
        for asked in inbox.take(0):
            asked.answer([Refusal("unknown", "no")])
        mine = [given for given in woken if given[0].__qualname__.startswith("_Returns")]
        made = [await intake.settle(each) for each in waiting]
        return len(mine), [answers[0]["kind"] for answers in made]

    assert asyncio.run(drive()) == (1, ["unknown"] * 5)


def test_an_answer_whose_client_has_left_still_gives_its_streams_back():
    async def drive() -> dict[str, str]:
        inbox, reader, leases = Inbox(), Reader(Description(SPEC)), StreamLeases()
        leases.connect("a")
        intake = Intake(inbox, leases)
        asked_for = ((observe("refused"), Refusal("unknown", "no")), (reward("kept", 1, 0.0), Accepted("kept", 1)))
        for text, answer in asked_for:
            left = asyncio.create_task(intake.settle(await intake.put("a", text, reader.read, ONE)))
            await asyncio.sleep(0)
            left.cancel()
            await asyncio.wait([left])
            (asked,) = inbox.take(0)
            asked.answer([answer])
            await asyncio.sleep(0)
        return leases._owners

    assert asyncio.run(drive()) == {"kept": "a"}


def test_what_is_not_worth_its_turn_leaves_it_to_the_next():
    async def drive() -> list[str]:
        turnstile, begun = Turnstile(1), []

        def begin(name: str, worth: bool) -> bool:
            begun.append(name)
            return worth

        for name, worth in (("first", True), ("gone", False), ("second", True), ("third", True)):
            turnstile.call((name,), 1, lambda name=name, worth=worth: begin(name, worth))
        assert (begun, len(turnstile)) == (["first"], 3)
        await asyncio.sleep(0)
        return list(begun)

    assert asyncio.run(drive()) == ["first", "gone", "second"]


def test_a_crowd_gives_way_to_what_is_more_urgent_but_not_forever():
    async def drive(busy_for: int) -> int:
        turnstile, begun, asked = Turnstile(1), [], []

        def busy() -> bool:
            asked.append(list(begun))
            return len(asked) <= busy_for

        turnstile.busy = busy
        for name in ("first", "second", "third"):
            turnstile.call((name,), 1, lambda name=name: begun.append(name) is None)
        while len(begun) < 2:
            await asyncio.sleep(0.001)
        return asked.count(["first"])

    assert asyncio.run(drive(busy_for=0)) == 1
    assert asyncio.run(drive(busy_for=3)) == 4
    assert asyncio.run(drive(busy_for=1000)) == MOST_PAUSES
