"""Faults of an endpoint: a changed request, a forged response, or a broken connection.

A `Fault` works on decoded JSON-RPC requests and responses. `tests.support.sending.proxy.Proxy`
applies it between a harness and Anvil, by method and count.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Any, NamedTuple

Question = dict[str, Any]
Answer = dict[str, Any]
# Longer than any operation on a busy machine; no test waits for so long.
_SECONDS_AT_MOST = 120


class Reply(NamedTuple):
    """An HTTP response; `body` None breaks the connection instead."""

    body: bytes | None
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    # The length in the header if it differs from the body's.
    length: int | None = None


@dataclass
class Gate:
    """Holds a request or a response until a test releases it, so that tests need not sleep."""

    reached: Event = field(default_factory=Event)
    released: Event = field(default_factory=Event)

    def wait(self) -> None:
        """Report that a request has arrived, and wait."""
        self.reached.set()
        self.released.wait(_SECONDS_AT_MOST)

    def until_reached(self) -> None:
        """Wait until a request has arrived here."""
        assert self.reached.wait(_SECONDS_AT_MOST), "no request arrived"

    def release(self) -> None:
        """Release all waiting and all later requests."""
        self.released.set()


@dataclass(frozen=True)
class Fault:
    """A fault.

    `ask` changes the request. Without `forwards`, the chain never receives the request. `answer`
    changes the response, and `wire` the complete HTTP response. `before` and `after` hold the
    request before and after it is forwarded.
    """

    forwards: bool = True
    ask: Callable[[Question], Question] | None = None
    answer: Callable[[Question, Answer], Answer] | None = None
    wire: Callable[[bytes], Reply] | None = None
    before: Gate | None = None
    after: Gate | None = None


# --- the line ---


def drop_response() -> Fault:
    """Return a fault that executes the request, and then breaks the connection."""
    return Fault(wire=lambda _: Reply(None))


def drop_request() -> Fault:
    """Return a fault that breaks the connection before the chain receives the request."""
    return Fault(forwards=False, wire=lambda _: Reply(None))


def hold_request(gate: Gate) -> Fault:
    """Return a fault that holds the request until the gate opens."""
    return Fault(before=gate)


def hold_response(gate: Gate) -> Fault:
    """Return a fault that executes the request, and holds the response until the gate opens."""
    return Fault(after=gate)


def return_status(code: int, *, forwards: bool = False, retry_after: int | None = None) -> Fault:
    """Return a fault that returns an HTTP error, optionally with Retry-After in seconds."""
    headers = () if retry_after is None else (("Retry-After", str(retry_after)),)
    return Fault(forwards=forwards, wire=lambda _: Reply(b"no", code, headers))


def return_web_page(*, forwards: bool = False) -> Fault:
    """Return a fault that returns an HTML page with status 200."""
    page = b"<!doctype html><title>Just a moment...</title>"
    return Fault(forwards=forwards, wire=lambda _: Reply(page))


def return_empty_body(*, forwards: bool = False) -> Fault:
    """Return a fault that returns status 200 and an empty body."""
    return Fault(forwards=forwards, wire=lambda _: Reply(b""))


def truncate_json(*, forwards: bool = True) -> Fault:
    """Return a fault that sends half of the JSON with a matching content length."""
    return Fault(forwards=forwards, wire=lambda body: Reply(body[: len(body) // 2]))


def cut_response(*, forwards: bool = True) -> Fault:
    """Return a fault that sends half of the promised bytes, and then closes the connection."""
    return Fault(
        forwards=forwards, wire=lambda body: Reply(body[: len(body) // 2], length=len(body))
    )


# --- words ---


def return_error(text: str, code: int = -32000, *, forwards: bool = False) -> Fault:
    """Return a fault that returns a JSON-RPC error.

    With `forwards`, the chain executes the call.
    """
    return Fault(
        forwards=forwards, answer=lambda request, _: _build_error_response(request, text, code)
    )


def respond_with(result: object) -> Fault:
    """Return a fault that returns this result, whatever the chain's is."""
    return Fault(forwards=False, answer=lambda request, _: _build_result_response(request, result))


def return_null() -> Fault:
    """Return a fault that returns null, as for a missing receipt or block."""
    return respond_with(None)


def return_wrong_id() -> Fault:
    """Return a fault that returns the id of another request."""
    return Fault(answer=lambda request, response: {**response, "id": f"not {request['id']}"})


def shift_number(steps: int) -> Fault:
    """Return a fault that adds `steps` to a number such as a nonce or a balance."""

    def answer(request: Question, response: Answer) -> Answer:
        return _build_result_response(request, hex(max(int(response["result"], 16) + steps, 0)))

    return Fault(answer=answer)


def return_chain_id(chain_id: int) -> Fault:
    """Return a fault that returns this chain id; use it for `eth_chainId`."""
    return respond_with(hex(chain_id))


# --- views of the chain ---


def freeze_at_block(head: int) -> Fault:
    """Return a fault that keeps the endpoint at a block, as if it no longer synced.

    Use it for all methods ("*"). Later blocks and receipts are null; sent transactions are
    forwarded.
    """

    def cap_block_parameter(request: Question) -> Question:
        capped_params = [_cap_block_parameter(param, head) for param in request["params"]]
        return {**request, "params": capped_params}

    def answer(request: Question, response: Answer) -> Answer:
        if request["method"] == "eth_blockNumber":
            return _build_result_response(request, hex(min(int(response["result"], 16), head)))
        return _build_result_response(request, None) if _is_above(response, head) else response

    return Fault(ask=cap_block_parameter, answer=answer)


def show_other_fork(first: int) -> Fault:
    """Return a fault that changes the hashes of all blocks from `first` on; use it for "*"."""
    return Fault(answer=lambda _, response: {**response, **_change_hashes(response, first)})


def inflate_head(lead: int, *, has_parent: bool = False) -> Fault:
    """Return a fault that shows a head `lead` blocks too high, and no other block above the head.

    With `has_parent`, this block and its parent are also returned by number. Use the fault for all
    methods ("*").
    """
    invented_blocks: dict[str, Answer] = {}

    def answer(request: Question, response: Answer) -> Answer:
        if request["method"] == "eth_blockNumber":
            return _build_result_response(request, hex(int(response["result"], 16) + lead))
        if request["method"] != "eth_getBlockByNumber":
            return response
        if request["params"][0] != "latest":
            invented_block = invented_blocks.get(request["params"][0])
            return (
                response
                if invented_block is None
                else _build_result_response(request, invented_block)
            )
        header = response["result"]
        number = int(header["number"], 16) + lead
        inflated_fields = {
            "number": hex(number),
            "timestamp": hex(int(header["timestamp"], 16) + lead),
            "parentHash": header["hash"],
        }
        inflated_fields["hash"] = "0x" + hashlib.sha256(repr(inflated_fields).encode()).hexdigest()
        newest_block = {**header, **inflated_fields}
        if has_parent:
            invented_blocks[hex(number)] = newest_block
            invented_blocks[hex(number - 1)] = {**header, "number": hex(number - 1)}
        return _build_result_response(request, newest_block)

    return Fault(answer=answer)


def _cap_block_parameter(param: Any, head: int) -> Any:
    if param in {"latest", "pending"} if isinstance(param, str) else False:
        return hex(head)
    return param


def _is_above(response: Answer, head: int) -> bool:
    result = response.get("result")
    if not isinstance(result, dict):
        return False
    number = result.get("blockNumber") or result.get("number")
    return isinstance(number, str) and int(number, 16) > head


def _change_hashes(response: Answer, first: int) -> Answer:
    result = response.get("result")
    if isinstance(result, list):
        return {"result": [_change_hashes({"result": entry}, first)["result"] for entry in result]}
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


def _build_error_response(request: Question, text: str, code: int) -> Answer:
    return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": text}}


def _build_result_response(request: Question, result: object) -> Answer:
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}
