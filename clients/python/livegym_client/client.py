"""A connection that is restored when it breaks, and that gets exactly one decision for each observation.

Each observation carries a sequence number that increases in its stream. If the connection breaks before the answer
arrives, the client cannot know whether the server has decided. So it reconnects and sends the same number again; the
server repeats its answer, or decides now. A reward that is sent twice in this way is refused as a `duplicate`, which
shows that the first one arrived. The client waits longer before each further try. It gives up after `patience`, so
that a server may restart meanwhile; if no server has ever answered, it gives up after `FIRST_PATIENCE`, because the
address is probably wrong.

Sequence numbers start at the system time in microseconds, so a restarted program continues above those of its last run.
The first observation that a program sends of a stream begins an episode (`first`): the server must not learn that it
follows from the stream's last decision, which an earlier program may have got.
"""

from __future__ import annotations

import itertools
import json
import logging
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar, Union

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from livegym_client.errors import Denied, LivegymError, Refused, Unreachable
from livegym_client.runner import Runner, Step
from livegym_client.wire import VERSION, Address, Decision, Observation, batches, extra_fields, item_of

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # s between two tries, doubled each time
FIRST_PATIENCE = 30.0  # s, of a client that has never got an answer
BEGINS, CONTINUES = {"first": True}, {"episode": "continue"}
TRANSIENT = ("busy", "closing", "failed")
"""Kinds of refusals after which the same message is resent."""

Outcome = Union[Decision, Refused, None]
T = TypeVar("T")
log = logging.getLogger(__name__)


class _Again(Exception):
    """A try failed; another one may succeed after `pause` s."""

    def __init__(self, why: str, pause: float = 0.0) -> None:
        super().__init__(why)
        self.pause = pause


class Client:
    """A client with one connection to a server. Not thread-safe."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        tries: int | None = None,
        timeout: float = 60.0,
        patience: float = 300.0,
    ) -> None:
        """`url`: as the server prints it. `timeout`: s to wait for an answer before the request is resent.

        `patience`: s for which a request is repeated while the server is away; math.inf: without end. `tries`: after
        so many tries the client gives up, too; None: no limit.

        The client connects at the first request. Raises ValueError if `url` is invalid.
        """
        self._address = Address.of(url, token)
        self._tries, self._timeout = tries, timeout
        self._patience = patience
        self._answered = False
        self._name = uuid.uuid4().hex  # under this name, streams stay ours over a broken connection
        self._socket: ClientConnection | None = None
        self._ids = itertools.count(1)
        self._sequences: dict[str, int] = {}
        self._begun: set[str] = set()  # streams of which an observation was answered
        self._running: set[str] = set()  # streams that `episodes` runs
        self.connections = 0  # connections made so far; more than one after a break

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; other clients may then use the streams. May be called more than once."""
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def spec(self) -> dict[str, Any]:
        """Return the server's description: task, observation, action, control_dt, limits.

        Raises:
            Denied, Unreachable.
        """
        return self._persist(self._read_spec)

    def decide(
        self,
        stream: str,
        observation: Observation,
        reward: float | None = None,
        done: bool = False,
        truncated: bool = False,
        first: bool | None = None,
        executed: Any = None,
        executed_log_prob: float | None = None,
        learn: bool = True,
        part: int | None = None,
    ) -> Decision | None:
        """Return the decision on an observation; None if it is the last one of its episode.

        `done`: the episode terminated with this observation; `truncated`: a time limit ended it. They are Gymnasium's
        `terminated` and `truncated`; if both are set, `done` counts.

        `reward`: the reward of the stream's previous decision, if the client knows it. `first`: an episode begins with
        this observation, so that decision did not lead to it; None: if this client sends no reward with it, and has not
        sent an observation of the stream before.

        `executed`: the action that was really executed instead of that decision, and `executed_log_prob`: the logarithm
        of the probability (density) with which it was chosen; without it, the policy learns nothing from that decision.
        `part`: the number of this part of that decision's reward, of which more will follow by `reward`. `learn=False`:
        nothing is learned from the decision on this observation.

        Raises:
            Refused, Denied, Unreachable.
        """
        more = {stream: extra_fields(executed, executed_log_prob, learn, part)}
        rewards = {} if reward is None else {stream: reward}
        failed, late = ([stream] if which else [] for which in (done, truncated))
        begins = None if first is None else [stream] if first else []
        outcome = self.decide_all({stream: observation}, rewards, failed, late, begins, more)[stream]
        if isinstance(outcome, Refused):
            raise outcome
        return outcome

    def decide_all(
        self,
        observations: Mapping[str, Observation],
        rewards: Mapping[str, float] | None = None,
        done: Collection[str] = (),
        truncated: Collection[str] = (),
        first: Collection[str] | None = None,
        more: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, Outcome]:
        """Return the decisions on one observation of each of several streams, or a Refused in place of a decision.

        `done`, `truncated`: streams whose episodes end with their observation. `first`: streams whose episodes begin
        with it; None: those of which this client has sent no observation before, and sends no reward now. `more`:
        further fields of the protocol, such as {"robot-1": {"learn": False}}.

        Raises:
            Refused: a whole message was refused, for example because of NaN; earlier messages have been decided.
            Denied, Unreachable.
        """
        rewards, more = rewards or {}, more or {}
        new = [s for s in observations if s not in self._begun and s not in {*rewards, *done, *truncated}]
        begins = dict.fromkeys(new, CONTINUES if first is not None else BEGINS) | dict.fromkeys(first or (), BEGINS)
        numbers = {stream: self._sequence(stream) + 1 for stream in observations}
        ended_by = {**dict.fromkeys(truncated, "truncated"), **dict.fromkeys(done, "done")}
        items = {
            s: item_of(s, o, numbers[s], rewards.get(s), ended_by.get(s), {**begins.get(s, {}), **more.get(s, {})})
            for s, o in observations.items()
        }
        outcomes: dict[str, Outcome] = {}
        for batch in batches(items):
            message = f'"type":"observe","observations":[{",".join(items[stream] for stream in batch)}]'
            answers, _ = self._ask(message)
            for stream, answer in zip(batch, answers, strict=True):
                outcomes[stream] = _outcome(answer)
                if not isinstance(outcomes[stream], Refused):
                    self._sequences[stream] = numbers[stream]
                    self._begun.add(stream)
        return outcomes

    def reward(
        self,
        decision: Decision,
        value: float,
        done: bool = False,
        executed: Any = None,
        executed_log_prob: float | None = None,
        learn: bool = True,
        part: int | None = None,
    ) -> None:
        """Send the reward of a decision; `done`: the episode ended with it.

        `part`: the number of this part of the reward, each of which counts once; the call without it is the last. The
        others are as in `decide`, but `learn` is about this decision.

        Raises:
            Refused, Denied, Unreachable.
        """
        given = {"stream": decision.stream, "decision": decision.decision, "reward": float(value), "done": done}
        given |= extra_fields(executed, executed_log_prob, learn, part)
        (answer,), repeated = self._ask(f'"type":"reward","rewards":[{json.dumps(given)}]')
        outcome = _outcome(answer)
        if isinstance(outcome, Refused) and not (repeated and outcome.kind == "duplicate"):
            raise outcome

    def learning(self, stream: str, on: bool) -> None:
        """Switch a stream's training on or off: the server still decides for it, but learns nothing from it.

        Raises:
            Refused, Denied, Unreachable.
        """
        body = json.dumps({"v": VERSION, "stream": stream, "learn": on}).encode()
        self._persist(lambda: self._http("learning", body))

    def episodes(
        self,
        env: Any,
        stream: str | None = None,
        steps: int | None = None,
        seed: int | None = None,
        learn: bool = True,
        idle: Any = None,
    ) -> Iterator[Step]:
        """Run a Gymnasium environment with the server's decisions, episode after episode; yield each step.

        `stream`: its name; None: one of this client's own, which no other `episodes` uses meanwhile. `steps`: how many;
        None: no limit. `seed`: of the first `reset`. `learn=False`: the server learns nothing from it. `idle`: the
        action of a step for which the server returns none.

        Raises:
            ValueError: the environment's action space is not the server's, or another `episodes` runs this stream.
            Refused, Denied, Unreachable.
        """
        name = stream or self._free_name()
        if name in self._running:
            raise ValueError(
                f"stream={stream!r}: another `episodes` of this client runs it, and two environments cannot be one "
                "stream. Choose another name, or call close() on what the other one returned."
            )
        self._running.add(name)
        try:
            runner = Runner(env, self, name, seed, idle, learn)
            for _ in itertools.count() if steps is None else range(steps):
                yield runner.step()
        finally:
            self._running.remove(name)

    def _free_name(self) -> str:
        own = f"env-{self._name[:12]}"
        return next(name for n in itertools.count(1) if (name := own if n == 1 else f"{own}-{n}") not in self._running)

    def _sequence(self, stream: str) -> int:
        """Return the sequence number of the stream's last answered observation."""
        return self._sequences.setdefault(stream, time.time_ns() // 1000)

    def _ask(self, content: str) -> tuple[list[dict[str, Any]], bool]:
        """Return the answers to a message, and whether it was sent more than once."""
        id_ = next(self._ids)
        text = f'{{"v":{VERSION},"id":{id_},{content}}}'
        sent = itertools.count()
        answer = self._persist(lambda: self._exchange(id_, text, sent))
        return answer["answers"], next(sent) > 1

    def _exchange(self, id_: int, text: str, sent: itertools.count[int]) -> dict[str, Any]:
        """Send a message and return the answer. Raises _Again, Refused, Denied."""
        try:
            socket = self._connected()
            next(sent)
            socket.send(text)
            answer = json.loads(socket.recv(timeout=self._timeout))
            self._answered = True
        except (OSError, ConnectionClosed) as error:  # TimeoutError is an OSError
            self._drop()
            raise _Again(str(error) or "no answer arrived in time") from error
        if answer["type"] == "error":
            if answer["kind"] not in TRANSIENT:
                raise Refused(answer["kind"], answer["message"], answer.get("field"))
            if answer["kind"] == "closing":
                self._drop()
            raise _Again(answer["message"], answer.get("retry_after", 0.0))
        if answer["id"] != id_:
            self._drop()
            raise _Again(f"the answer has id {answer['id']}, expected {id_}")
        return answer

    def _connected(self) -> ClientConnection:
        """Return the connection; connect first if there is none. Raises _Again, Denied, OSError."""
        if self._socket is None:
            try:
                self._socket = connect(
                    self._address.socket(self._name),
                    additional_headers=self._address.headers,
                    compression=None,
                    proxy=None,
                    max_size=None,
                    open_timeout=10,
                    close_timeout=2,
                )
            except InvalidStatus as error:
                status, body = error.response.status_code, (error.response.body or b"").decode(errors="replace")
                raise _denial(status, body, error.response.headers.get("Retry-After")) from None
            except InvalidHandshake as error:
                raise _Again(str(error)) from error
            self.connections += 1
        return self._socket

    def _drop(self) -> None:
        """Close the connection without waiting for the server."""
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close_timeout = 0.1
            socket.close()

    def _read_spec(self) -> dict[str, Any]:
        return self._http("spec")

    def _http(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        """Return the JSON of a GET, or of a POST of `body`. Raises _Again, Denied, Refused."""
        headers = {**self._address.headers, **({} if body is None else {"content-type": "application/json"})}
        request = urllib.request.Request(f"{self._address.base}/{path}", body, headers)
        straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with straight.open(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            if error.code == 422:
                refused = json.loads(text)
                raise Refused(refused["kind"], refused["message"], refused.get("field")) from None
            raise _denial(error.code, text, error.headers["Retry-After"]) from None
        except OSError as error:
            raise _Again(str(error)) from error

    def _persist(self, attempt: Callable[[], T]) -> T:
        """Return the result of `attempt`, repeated while it raises _Again. Raises Unreachable if patience ends."""
        begin = time.monotonic()
        patience = self._patience if self._answered else min(self._patience, FIRST_PATIENCE)
        for number in itertools.count(1):
            try:
                result = attempt()
            except _Again as again:
                pause = max(again.pause, min(FIRST_PAUSE * 2 ** min(number - 1, 10), LONGEST_PAUSE))
                waited = time.monotonic() - begin
                if number == self._tries or waited + pause > patience:
                    raise Unreachable(self._gave_up(number, waited, str(again))) from None
                if number == 1:
                    log.warning("%s: %s; trying again for %g s", self._address.base, again, patience)
                time.sleep(pause)
            else:
                self._answered = True
                return result
        raise AssertionError("the loop above ends by itself")

    def _gave_up(self, tries: int, waited: float, why: str) -> str:
        return (
            f"{self._address.base}: no answer in {tries} tries within {waited:.0f} s; the last error: {why}. "
            "Check that the server runs and that this is its address, then ask again; Client(..., patience=3600) "
            "waits for an hour once a server has answered"
        )


def _outcome(answer: dict[str, Any]) -> Outcome:
    if answer["type"] == "error":
        return Refused(answer["kind"], answer["message"])
    return Decision(**{k: v for k, v in answer.items() if k != "type"}) if answer["type"] == "decision" else None


def _denial(status: int, body: str, retry_after: str | None) -> LivegymError | _Again:
    """Return the exception for an answer with an error status."""
    message = f"the server answered {status}: {body.strip() or 'without a reason'}"
    if status in (429, 502, 503, 504):
        return _Again(message, float(retry_after) if retry_after and retry_after.isdecimal() else 0.0)
    return Denied(message)
