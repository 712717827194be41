"""The protocol's page says what the code does, its lines run, and the API's page works in a browser."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from livegym.online.pending import SESSION
from livegym.online.stream_requests import REFUSALS
from livegym.schema import OnlineConfig
from livegym.serve import clients, connection, leases, messages, server
from livegym.serve.backlog import ROWS
from livegym.serve.inbox import CAPACITY
from livegym.web import places
from livegym.web.server import MAX_HELD, MAX_MESSAGE, MAX_WAITING
from livegym_client import Client
from livegym_client.client import FIRST_PATIENCE
from tests.page_fixtures import needs_chromium
from tests.patience import PATIENCE_S

pytest_plugins = ["online_fixtures", "page_fixtures"]

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "protocol.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.S)


def rows(heading):
    part = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"][2:]


def test_the_table_has_every_kind_with_its_status():
    table = {row[0].strip("`"): row[1] for row in rows("Errors")}
    assert set(table) == set(get_args(messages.Kind))
    assert {k: int(v) for k, v in table.items() if v.isdecimal()} == messages.STATUS
    assert {k for k, v in table.items() if v == "in answers"} == set(REFUSALS) - set(messages.STATUS)


def test_the_limits_are_the_codes():
    table = {row[0]: row[1] for row in rows("Limits")}
    assert len(table) == len(rows("Limits"))  # each name once
    assert table["message size"].startswith(f"{MAX_MESSAGE // 1024} KiB")
    assert table["requests in a message"] == str(messages.MAX_ITEMS)
    assert table["unanswered messages of a connection"].startswith(f"{connection.UNANSWERED};")
    assert f"with {MAX_HELD // 1024} KiB more it closes" in table["unanswered messages of a connection"]
    assert table["waiting requests of all clients"].startswith(f"{CAPACITY};")
    assert table["clients"] == (
        f"{clients.MAX_CLIENTS} WebSockets, {server.MAX_REQUESTS} HTTP requests of each; one address: "
        f"{places.ADDRESS_SHARE * clients.MAX_CLIENTS:g} WebSockets, this machine's own {clients.MAX_CLIENTS}; "
        f"each address: {server.MAX_REQUESTS_FROM} HTTP requests"
    )
    assert f"503 if {places.REQUESTS} requests or {server.SOCKETS} WebSockets are being" in " ".join(TEXT.split())
    assert f"up to {ROWS} of them (or one message with more), even those of other clients" in " ".join(TEXT.split())
    streaming = " ".join((ROOT / "docs" / "streaming.md").read_text().split())
    assert f"({places.STRANGERS}, {places.REQUESTS} and {places.SOCKETS}; {server.SOCKETS} for clients" in streaming
    assert f"{places.SOCKETS} pages may be open at once" in streaming
    unheard = table["clients of which no message was accepted so far"]
    assert unheard.startswith(f"{clients.MAX_UNHEARD} more WebSockets, {connection.SILENT_S:g} s each;")
    assert f"if that was {clients.QUIET_S:g} s" in table["silence"]
    assert table["connections without a request yet"].startswith(f"{MAX_WAITING};")
    assert table["streams"] == f"`online.max_streams`, {OnlineConfig().max_streams}"
    far, near = (share * OnlineConfig().max_streams for share in (places.ADDRESS_SHARE, leases.CLIENT_SHARE))
    assert table["streams of one address"] == (
        f"three quarters of them, {far:g}; on this machine each client: half, {near:g}, while another one has streams"
    )
    assert f"for {connection.SEND_S:g} s" in table["unread answers"]
    assert table["meaningless messages"].startswith(f"{connection.REFUSALS} ")
    assert f"for {leases.LEASE_S:g} s after each request" in " ".join(TEXT.split())
    assert f"no answer within {server.ANSWER_S:g} s" in TEXT


def test_the_json_is_json():
    assert [json.loads(block)["type"] for block in blocks("json")] == ["answers", "error"]


def test_the_lines_run_as_they_stand(serve):
    served = serve()
    port = f":{served.gateway.port}"
    for code in blocks("python"):
        done = subprocess.run(
            [sys.executable, "-c", code.replace(":58080", port)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
    assert served.loop.rewards == {1: 0.98, 2: 0.97}
    (commands,) = blocks("sh")
    first = str(SESSION + 1)  # the id of a run's first decision
    made = None
    for command in commands.replace(":58080", port).split("\n\n"):
        if made is not None:
            assert first in command
            command = command.replace(first, str(made))
        out = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S).stdout
        for answer in json.loads(out).get("answers", []):
            assert answer["type"] in ("decision", "accepted"), answer
            made = answer["decision"]
    assert served.loop.rewards == {1: 0.98, 2: 0.97, made: 0.98}


def test_the_clients_patience_is_as_described():
    told = " ".join(TEXT.split())
    patience = inspect.signature(Client).parameters["patience"].default
    assert (
        f"was away for `Client(..., patience={patience:g})` seconds, or for {FIRST_PATIENCE:g} s if no server" in told
    )


@pytest.mark.slow
@needs_chromium
def test_the_page_of_the_api_sends_a_message(serve, open_page):
    served = serve(raw=True)
    page = open_page(f"{served.address}/online/v1/docs", playing=False)
    page.click("text=/observe >> nth=0")
    page.click("text=Try it out")
    raw = {"minerals": [[0, 0, 0], [0, 0, 1]], "energy": 3}
    page.fill("textarea", json.dumps({"v": 1, "observations": [{"stream": "a", "raw": raw}]}))
    page.click("button.execute")
    page.wait_for_selector(".live-responses-table")
    assert '"type": "decision"' in page.inner_text(".live-responses-table")
    assert served.loop.decided == {1: 8.0}
    assert page.console_errors == []
