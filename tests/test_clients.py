"""The places of WebSocket clients: how many one address may hold, and who gives way."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from livegym.serve import clients as module
from livegym.serve import connection as connection_module
from livegym.serve.clients import Clients
from livegym.serve.connection import Ending, StreamConnection
from livegym.serve.inbox import Inbox
from livegym.serve.intake import Intake, Sender
from livegym.serve.leases import StreamLeases
from livegym.serve.messages import Description
from livegym.serve.protocol import MessageRefused, Reader
from tests.online_fixtures import SPEC
from tests.test_online_server import observe


class Connection:
    """What is known of a connection."""

    def __init__(self, silence: float = 0.0) -> None:
        self.silence, self.endings = silence, []
        self.finds_no_place = False

    def give_way(self, why: str) -> None:
        self.endings.append(why)

    def replace(self) -> None:
        self.endings.append("replaced")


@pytest.fixture
def clients(monkeypatch) -> Clients:
    monkeypatch.setattr(module, "MAX_CLIENTS", 8)
    return Clients(StreamLeases())


def heard(clients: Clients, owner: str, address: str, silence: float = 0.0) -> Connection:
    """A client of which a message was accepted."""
    connection = Connection(silence)
    clients.enter(owner, connection, address)
    clients.check(owner)
    clients.take(owner)
    return connection


def test_one_address_holds_three_quarters_of_the_places_and_this_machine_all(clients):
    for k in range(6):
        heard(clients, f"far {k}", "192.0.2.1")
    mine = "6 clients of your address (192.0.2.1) are connected already; allowed for one address: 6. "
    assert clients.refusal("192.0.2.1").startswith(mine)
    clients.enter("far 6", crowded := Connection(), "192.0.2.1")
    with pytest.raises(MessageRefused, match=re.escape(mine)):
        clients.check("far 6")
    assert crowded.finds_no_place
    assert clients.turned_away == 1
    for address in ("192.0.2.2", "127.0.0.1"):
        assert clients.refusal(address) is None
        heard(clients, address, address)
    for address in ("127.0.0.1", "192.0.2.3"):
        assert clients.refusal(address).startswith("8 clients are connected already; allowed: 8. ")

    nearby = Clients(StreamLeases())
    for k in range(8):
        heard(nearby, f"near {k}", "127.0.0.1")
    assert len(nearby) == 8


def test_beyond_its_share_an_address_takes_the_place_of_one_of_its_own(clients):
    silent = heard(clients, "other", "192.0.2.2", silence=3 * module.QUIET_S)
    mine = [heard(clients, f"far {k}", "192.0.2.1", silence=(k == 2) * 2 * module.QUIET_S) for k in range(6)]
    heard(clients, "far 6", "192.0.2.1")
    assert [len(connection.endings) for connection in mine] == [0, 0, 1, 0, 0, 0]
    assert mine[2].endings == ["silent for 120 s, and another client needs the place"]
    assert silent.endings == []
    heard(clients, "third", "192.0.2.3")  # the last place
    heard(clients, "fourth", "192.0.2.4")
    assert silent.endings == ["silent for 180 s, and another client needs the place"]
    assert "other" not in clients


def test_a_client_that_comes_back_has_its_place_and_its_new_address(clients):
    for k in range(6):
        heard(clients, f"far {k}", "192.0.2.1")
    clients.enter("far 0", again := Connection(), "192.0.2.2")
    clients.check("far 0")
    clients.take("far 0")
    assert clients.refusal("192.0.2.1") is None
    clients.leave("far 0", Connection())  # the earlier one has ended
    assert "far 0" in clients
    clients.leave("far 0", again)
    assert len(clients) == 5


@pytest.mark.parametrize(("name", "streams"), [("first", 7), ("third", 2), ("third", 8)])
def test_the_streams_of_one_address_leave_room_for_others(name, streams):
    """One client of another machine took all 64 with one message, and every other one was refused."""

    async def drive() -> None:
        leases = StreamLeases(max_streams=8)
        intake, reader = Intake(Inbox(), leases), Reader(Description(SPEC))

        async def named(owner: str, streams: int, address: str) -> None:
            items = [{"stream": f"{owner}-{k}", "obs": [0, 0, 0, 0]} for k in range(streams)]
            leases.connect(owner)
            text = json.dumps({"v": 1, "type": "observe", "observations": items})
            await intake.put(owner, text, reader.read, Sender(owner, (address, owner), address))

        await named("first", 5, "192.0.2.1")
        with pytest.raises(MessageRefused) as refused:
            await named(name, streams, "192.0.2.1")
        assert refused.value.kind == "too_many_streams"
        assert "5 streams of your address (192.0.2.1) are in use" in refused.value.text()
        assert "at most 6 are allowed" in refused.value.text()
        await named("first", 6, "192.0.2.1")
        await named("second", 2, "192.0.2.2")

    asyncio.run(drive())


WAYS = {
    "{": Ending("no valid message within 0.001 s", 1008),
    observe("taken"): Ending("no message was accepted within 0.001 s", 1013),
    observe("b"): Ending("no place became free within 0.001 s", 1013),
}


@pytest.mark.parametrize(("text", "right"), WAYS.items())
def test_who_is_disconnected_is_told_what_was_missing(clients, monkeypatch, text, right):
    monkeypatch.setattr(connection_module, "SILENT_S", 0.001)
    leases = StreamLeases()
    leases.connect("owner")
    leases.take("owner", ["taken"])
    for k in range(8):
        heard(clients, f"near {k}", "127.0.0.1")

    async def drive() -> Ending:
        sender = Sender("connection 9", ("127.0.0.1", "connection 9"))
        late = StreamConnection(None, "late", Intake(Inbox(), leases), Reader(Description(SPEC)), sender, clients)
        clients.enter("late", late, "127.0.0.1")
        assert isinstance(await late._entry(text, None), MessageRefused)
        return await late._watch()

    assert asyncio.run(drive()) == right


def test_who_was_accepted_is_not_disconnected_and_a_full_inbox_accepts_nothing(clients):
    async def drive() -> list[bool]:
        held = []
        for capacity in (0, 8):
            sender, owner = Sender("connection 1", ("127.0.0.1", "connection 1")), f"client {capacity}"
            intake = Intake(Inbox(capacity), StreamLeases())
            entering = StreamConnection(None, owner, intake, Reader(Description(SPEC)), sender, clients)
            clients.enter(owner, entering, "127.0.0.1")
            await entering._entry(observe("a"), None)
            held.append(owner not in clients._unheard)
        return held

    assert asyncio.run(drive()) == [False, True]
