"""What an endpoint may do to a question: ask another one, forge the answer, or break the line.

A `Fault` works on JSON-RPC questions and answers as Python sees them; `proxy.Proxy` puts it
between an office and Anvil, by method and count.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Any, NamedTuple

Question = dict[str, Any]
Answer = dict[str, Any]
# Longer than a busy machine takes for anything; no test waits it out.
_SECONDS_AT_MOST = 120


class Reply(NamedTuple):
    """What goes back over HTTP; `body` None: the connection breaks instead."""

    body: bytes | None
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    # The length that the header promises, where it is not the body's.
    length: int | None = None


@dataclass
class Gate:
    """Holds a question or an answer until somebody lets it go: no sleeping in tests."""

    reached: Event = field(default_factory=Event)
    released: Event = field(default_factory=Event)

    def wait(self) -> None:
        """Say that we are here, and wait."""
        self.reached.set()
        self.released.wait(_SECONDS_AT_MOST)

    def until_reached(self) -> None:
        """Return once a request waits here."""
        assert self.reached.wait(_SECONDS_AT_MOST), "nobody asked"

    def release(self) -> None:
        """Let go of whoever waits, and of all who come."""
        self.released.set()


@dataclass(frozen=True)
class Fault:
    """`ask` changes the question; without `forwards` the chain never sees it; `answer` forges.

    `wire` decides over the whole HTTP answer; `before` and `after` hold the request up.
    """

    forwards: bool = True
    ask: Callable[[Question], Question] | None = None
    answer: Callable[[Question, Answer], Answer] | None = None
    wire: Callable[[bytes], Reply] | None = None
    before: Gate | None = None
    after: Gate | None = None


# --- the line ---


def answer_dropped() -> Fault:
    """The chain takes it, and the connection breaks before we hear."""
    return Fault(wire=lambda _: Reply(None))


def request_dropped() -> Fault:
    """The connection breaks before the chain hears of it."""
    return Fault(forwards=False, wire=lambda _: Reply(None))


def held_before(gate: Gate) -> Fault:
    """Nobody asks the chain until the gate opens."""
    return Fault(before=gate)


def held_after(gate: Gate) -> Fault:
    """The chain has it; nobody hears until the gate opens."""
    return Fault(after=gate)


def status(code: int, *, forwards: bool = False, retry_after: int | None = None) -> Fault:
    """An HTTP error, with or without a wish when to come again (in seconds)."""
    headers = () if retry_after is None else (("Retry-After", str(retry_after)),)
    return Fault(forwards=forwards, wire=lambda _: Reply(b"no", code, headers))


def web_page(*, forwards: bool = False) -> Fault:
    """A page for people, with 200."""
    page = b"<!doctype html><title>Just a moment...</title>"
    return Fault(forwards=forwards, wire=lambda _: Reply(page))


def empty_body(*, forwards: bool = False) -> Fault:
    """200 and nothing."""
    return Fault(forwards=forwards, wire=lambda _: Reply(b""))


def truncated(*, forwards: bool = True) -> Fault:
    """Half of the JSON, by its own length all of it."""
    return Fault(forwards=forwards, wire=lambda body: Reply(body[: len(body) // 2]))


def cut_off(*, forwards: bool = True) -> Fault:
    """Half of the bytes that the header promised, and then the end."""
    return Fault(
        forwards=forwards, wire=lambda body: Reply(body[: len(body) // 2], length=len(body))
    )


# --- words ---


def error(text: str, code: int = -32000, *, forwards: bool = False) -> Fault:
    """A JSON-RPC error; the chain may have taken the question nevertheless."""
    return Fault(forwards=forwards, answer=lambda request, _: _error(request, text, code))


def says(result: object) -> Fault:
    """This result, whatever the chain thinks."""
    return Fault(forwards=False, answer=lambda request, _: _result(request, result))


def null() -> Fault:
    """Knows of nothing: no receipt, no block."""
    return says(None)


def wrong_id() -> Fault:
    """Answers somebody else's question."""
    return Fault(answer=lambda request, response: {**response, "id": f"not {request['id']}"})


def moved_by(steps: int) -> Fault:
    """A number that is higher or lower than it is: a nonce, a balance."""

    def answer(request: Question, response: Answer) -> Answer:
        return _result(request, hex(max(int(response["result"], 16) + steps, 0)))

    return Fault(answer=answer)


def another_chain(chain_id: int) -> Fault:
    """For `eth_chainId`."""
    return says(hex(chain_id))


# --- views of the chain ---


def stale(head: int) -> Fault:
    """Stands at a block, as a node that no longer syncs; for all methods ("*").

    What it does not know yet it does not have; what is sent it passes on.
    """

    def ask(request: Question) -> Question:
        capped_params = [_no_later(param, head) for param in request["params"]]
        return {**request, "params": capped_params}

    def answer(request: Question, response: Answer) -> Answer:
        if request["method"] == "eth_blockNumber":
            return _result(request, hex(min(int(response["result"], 16), head)))
        return _result(request, None) if _is_above(response, head) else response

    return Fault(ask=ask, answer=answer)


def another_fork(first: int) -> Fault:
    """Has other blocks from this height on, by their hashes; for all methods ("*")."""
    return Fault(answer=lambda _, response: {**response, **_renamed(response, first)})


def _no_later(param: Any, head: int) -> Any:
    if param in {"latest", "pending"} if isinstance(param, str) else False:
        return hex(head)
    return param


def _is_above(response: Answer, head: int) -> bool:
    result = response.get("result")
    if not isinstance(result, dict):
        return False
    number = result.get("blockNumber") or result.get("number")
    return isinstance(number, str) and int(number, 16) > head


def _renamed(response: Answer, first: int) -> Answer:
    result = response.get("result")
    if isinstance(result, list):
        return {"result": [_renamed({"result": entry}, first)["result"] for entry in result]}
    if not isinstance(result, dict):
        return {"result": result} if "result" in response else {}
    number = result.get("blockNumber") or result.get("number")
    if not isinstance(number, str) or int(number, 16) < first:
        return {"result": result}
    changed = dict(result)
    names = ["blockHash"] if "blockHash" in result else ["hash"]
    if "parentHash" in result and int(number, 16) > first:
        names.append("parentHash")
    for name in names:
        changed[name] = "0x" + hashlib.sha256(str(result[name]).encode()).hexdigest()
    return {"result": changed}


def _error(request: Question, text: str, code: int) -> Answer:
    return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": text}}


def _result(request: Question, result: object) -> Answer:
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}
