"""A line to one endpoint, for calls and for sending: one request, one answer, no retries.

A lost answer to `eth_sendRawTransaction` must stay lost: only the outbox may send again.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from typing_extensions import override

from oracle.errors import TransientError
from oracle.rpc.endpoints.backoff import Backoff
from oracle.rpc.replies import Reply, by_question, is_of, snippet
from oracle.rpc.rpc_errors import (
    OF_ITS_STATUS,
    CallRefusedError,
    ErrorKind,
    RevertError,
    RpcError,
    RpcTimeoutError,
    from_fault,
)
from oracle.rpc.views.door import Door
from oracle.rpc.views.heights import HighestBlocks
from oracle.telemetry.metrics import RPC_CALLS, RPC_ERRORS, RPC_SECONDS

_TIMEOUT_SECONDS = 10.0
# Endpoints that limit batches begin at a hundred; a day's finality can ask for thousands.
_MOST_AT_ONCE = 100

# They ask us to wait, or keep us waiting.
_RESTS = frozenset({ErrorKind.THROTTLED, ErrorKind.SLOW})

# Whatever shape an endpoint's JSON has.
Json: TypeAlias = Any
# A method and its parameters.
Request = tuple[str, Sequence[Any]]


class JsonRpcClient:
    """One endpoint. Its URL may hold a key, so that only the host is ever shown.

    `clock` tells seconds; an endpoint that asks us to wait is left alone by it.

    Raises:
        InputError: the URL is no http(s) address.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._door = Door(url, timeout_seconds)
        self.name = urlsplit(url).hostname or "endpoint"
        self.rest = Backoff(clock)
        self._reached = HighestBlocks(clock)
        self._numbers = itertools.count(1)
        self._at_once = _MOST_AT_ONCE
        # The chain that it said it serves, until it falls silent.
        self._chain_id: int | None = None

    @override
    def __repr__(self) -> str:
        return f"Line({self.name})"

    def close(self) -> None:
        """Let the connection go."""
        self._door.close()

    def ask(self, method: str, *parameters: object) -> Json:
        """Return the result.

        Raises:
            CallRefusedError: the endpoint answered with an error.
            RpcError: no answer, or none that is JSON-RPC, or it asked us to wait.
        """
        return self._result(*self._single((method, parameters)))

    def ask_all(self, asked: Sequence[Request]) -> list[Json]:
        """Return the results of several requests, in their order, from one batch.

        Raises:
            CallRefusedError: one of them was refused.
            RpcError: an answer is missing.
        """
        return [self._result(*answered) for answered in self._batch(asked)]

    def ask_each(self, asked: Sequence[Request]) -> "list[Json | CallRefusedError]":
        """Return the results of several requests, or why one was refused, in their order.

        Raises:
            RpcError: an answer is missing.
        """
        return [self._result_or_refusal(*answered) for answered in self._batch(asked)]

    def serves(self, chain_id: int) -> bool:
        """Tell whether it is an endpoint of this chain; asked until it is, and after a silence.

        Raises:
            CallRefusedError: it does not say.
            RpcError: no answer.
        """
        if self._chain_id != chain_id:
            answer = self.ask("eth_chainId")
            try:
                self._chain_id = int(answer, 16)
            except (TypeError, ValueError):
                raise self._silence("eth_chainId", ErrorKind.INVALID, "no number") from None
        return self._chain_id == chain_id

    def has_reached(self, block: int) -> bool:
        """Tell whether its newest block is this one or a later one; who is silent has not."""
        if self._reached.is_known(block):
            return True
        try:
            is_there = int(self.ask("eth_blockNumber"), 16) >= block
        except (TransientError, TypeError, ValueError):
            return False
        if is_there:
            self._reached.note(block)
        return is_there

    def _batch(self, asked: Sequence[Request]) -> list[tuple[dict[str, Any], str]]:
        """Ask as many at once as the endpoint takes, as often as that takes."""
        if (size := self._at_once) == 1 or len(asked) == 1:
            return [self._single(one) for one in asked]
        pieces = [asked[at : at + size] for at in range(0, len(asked), size)]
        return [answer for piece in pieces for answer in self._one_batch(piece)]

    def _single(self, request: Request) -> tuple[dict[str, Any], str]:
        body, method = self._body(request), request[0]
        answer = self._post(body, method)
        if not isinstance(answer, dict):
            raise self._silence(method, ErrorKind.INVALID, "no JSON-RPC")
        is_error = answer.get("error") is not None
        is_told = is_error or "result" in answer
        if is_told and not is_of(answer.get("id"), body["id"], is_error=is_error):
            raise self._misdirected(method)
        return answer, method

    def _one_batch(self, asked: Sequence[Request]) -> list[tuple[Json, str]]:
        bodies, method = [self._body(request) for request in asked], asked[0][0]
        answers = self._post(bodies, method)
        if isinstance(answers, dict) and "error" in answers:
            raise self._whole_batch_refused(answers, method)
        if not isinstance(answers, list):
            raise self._silence(method, ErrorKind.INVALID, f"not a batch of {len(asked)} as asked")
        told = [one for one in answers if isinstance(one, dict)]
        if all("error" in one and one.get("id") is None for one in told):
            raise self._whole_batch_refused({"error": None, **next(iter(told), {})}, method)
        replies = (Reply[Json](one.get("id"), one, one.get("error")) for one in told)
        found = by_question(replies, [body["id"] for body in bodies])
        if found is None or len(found) != len(bodies):
            raise self._misdirected(method)
        return [(found[b["id"]].result, one[0]) for b, one in zip(bodies, asked, strict=True)]

    def _whole_batch_refused(self, answer: dict[str, Any], method: str) -> TransientError:
        """It asks us to wait, or takes no batches, which it is spared then."""
        refusal = self._refusal(answer["error"], method)
        if not refusal.asks_to_wait:
            self._at_once = 1
        return refusal

    def _result_or_refusal(self, answer: dict[str, Any], method: str) -> "Json | CallRefusedError":
        try:
            return self._result(answer, method)
        except CallRefusedError as error:
            return error

    def _body(self, request: Request) -> dict[str, Any]:
        method, parameters = request
        number = next(self._numbers)
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(parameters)}

    def _post(self, body: object, method: str) -> Json:
        if (left := self.rest.left()) > 0:
            raise self._silence(method, ErrorKind.RESTING, f"left alone for {left:.1f} s more")
        RPC_CALLS.labels(method).inc()
        try:
            with RPC_SECONDS.labels(method).time():
                answer = self._door.post(body, method)
        except RpcError as error:
            if isinstance(body, list) and error.kind in OF_ITS_STATUS:
                self._at_once = 1
            is_late = isinstance(error, RpcTimeoutError)
            if error.retry_after is not None or error.kind in _RESTS or is_late:
                self.rest.begin(error.retry_after)
            raise self._silence(method, error.kind, error.words) from None
        return answer

    def _result(self, answer: dict[str, Any], method: str) -> Json:
        if answer.get("error") is not None:
            raise self._refusal(answer["error"], method)
        if "result" not in answer:
            words = f"neither result nor error: {snippet(msgspec.json.encode(answer))}"
            raise self._silence(method, ErrorKind.INVALID, words)
        self.rest.end()
        return answer["result"]

    def _refusal(self, error: object, method: str) -> CallRefusedError:
        RPC_ERRORS.labels(method).inc()
        refusal = from_fault(self.name, method, error)
        if refusal.asks_to_wait:
            self.rest.begin(None)
        return refusal

    def _misdirected(self, method: str) -> RpcError:
        self._door.hang_up()
        return self._silence(method, ErrorKind.UNREACHABLE, "an answer to another question")

    def _silence(self, method: str, kind: ErrorKind, words: str) -> RpcError:
        RPC_ERRORS.labels(method).inc()
        # Behind the address there may be another node when it comes back.
        self._chain_id = None
        self._reached.forget()
        return RpcError(self.name, kind, f"{method}: {words}")


class PoolView:
    """Every endpoint, the preferred one first; each question goes to the first that answers."""

    def __init__(self, lines: Sequence[JsonRpcClient]) -> None:
        self.all = tuple(lines)

    @property
    def quorum(self) -> int:
        """How many have to agree on what cannot be taken back: two, or the only one."""
        return min(2, len(self.all))

    def singly(self) -> "tuple[PoolView, ...]":
        """Return each endpoint by itself."""
        return tuple(PoolView([line]) for line in self.all)

    def close(self) -> None:
        """Let all connections go."""
        for line in self.all:
            line.close()

    def that_reached(self, block: int) -> "PoolView":
        """Return those that have come as far as a block that is known; all, where none has.

        What one says of its newest block that stands still behind is long over.
        """
        if len(self.all) < 2:  # noqa: PLR2004  there is no other to ask
            return self
        reached = [line for line in self.all if line.has_reached(block)]
        return PoolView(reached) if reached else self

    def check_chain(self, chain_id: int) -> None:
        """Make sure that every endpoint is of this chain; one that is silent is asked again later.

        Asked before every signature; costs nothing once they have answered.

        Raises:
            TransientError: one is of another chain; it may be put right while we wait.
        """
        for line in self.all:
            try:
                is_ours = line.serves(chain_id)
            except TransientError:
                continue
            if not is_ours:
                raise TransientError(
                    f"[chain] endpoints: {line.name} does not serve chain {chain_id}; "
                    "nothing is signed: put the address or chain.id right"
                )

    def ask(self, method: str, *parameters: object) -> Json:
        """Return the first answer; only a revert, the EVM's own word, is an answer for all.

        Raises:
            RevertError: the call reverts.
            CallRefusedError: every endpoint that answered refused to.
            TransientError: none answered.
        """
        return self.ask_all([(method, parameters)])[0]

    def ask_all(self, asked: Sequence[Request]) -> list[Json]:
        """Return the results of several requests, all from the same endpoint; raises as `ask`."""
        failures: list[TransientError] = []
        for line in self.all:
            try:
                return line.ask_all(asked)
            except RevertError:
                raise
            except TransientError as error:
                failures.append(error)
        refusals = [one for one in failures if isinstance(one, CallRefusedError)]
        told = [*refusals, *failures, TransientError("no endpoint is configured")]
        raise told[0]
