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
    return Fault(forwards=forwards, answer=lambda asked, _: _error(asked, text, code))


def says(result: object) -> Fault:
    """This result, whatever the chain thinks."""
    return Fault(forwards=False, answer=lambda asked, _: _result(asked, result))


def null() -> Fault:
    """Knows of nothing: no receipt, no block."""
    return says(None)


def wrong_id() -> Fault:
    """Answers somebody else's question."""
    return Fault(answer=lambda asked, told: {**told, "id": f"not {asked['id']}"})


def moved_by(steps: int) -> Fault:
    """A number that is higher or lower than it is: a nonce, a balance."""

    def answer(asked: Question, told: Answer) -> Answer:
        return _result(asked, hex(max(int(told["result"], 16) + steps, 0)))

    return Fault(answer=answer)


def another_chain(chain_id: int) -> Fault:
    """For `eth_chainId`."""
    return says(hex(chain_id))


# --- views of the chain ---


def stale(head: int) -> Fault:
    """Stands at a block, as a node that no longer syncs; for all methods ("*").

    What it does not know yet it does not have; what is sent it passes on.
    """

    def ask(asked: Question) -> Question:
        known = [_no_later(one, head) for one in asked["params"]]
        return {**asked, "params": known}

    def answer(asked: Question, told: Answer) -> Answer:
        if asked["method"] == "eth_blockNumber":
            return _result(asked, hex(min(int(told["result"], 16), head)))
        return _result(asked, None) if _is_above(told, head) else told

    return Fault(ask=ask, answer=answer)


def another_fork(first: int) -> Fault:
    """Has other blocks from this height on, by their hashes; for all methods ("*")."""
    return Fault(answer=lambda _, told: {**told, **_renamed(told, first)})


def _no_later(given: Any, head: int) -> Any:
    if given in {"latest", "pending"} if isinstance(given, str) else False:
        return hex(head)
    return given


def _is_above(told: Answer, head: int) -> bool:
    found = told.get("result")
    if not isinstance(found, dict):
        return False
    number = found.get("blockNumber") or found.get("number")
    return isinstance(number, str) and int(number, 16) > head


def _renamed(told: Answer, first: int) -> Answer:
    found = told.get("result")
    if isinstance(found, list):
        return {"result": [_renamed({"result": one}, first)["result"] for one in found]}
    if not isinstance(found, dict):
        return {"result": found} if "result" in told else {}
    number = found.get("blockNumber") or found.get("number")
    if not isinstance(number, str) or int(number, 16) < first:
        return {"result": found}
    changed = dict(found)
    names = ["blockHash"] if "blockHash" in found else ["hash"]
    if "parentHash" in found and int(number, 16) > first:
        names.append("parentHash")
    for name in names:
        changed[name] = "0x" + hashlib.sha256(str(found[name]).encode()).hexdigest()
    return {"result": changed}


def _error(asked: Question, text: str, code: int) -> Answer:
    return {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": code, "message": text}}


def _result(asked: Question, result: object) -> Answer:
    return {"jsonrpc": "2.0", "id": asked["id"], "result": result}
