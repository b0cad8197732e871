"""The base of every fake endpoint: computes honest results, then applies its faults."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.requests import FakeRequest, FakeRpcError, Http

# More requests than any test sends; a network that runs for days must not keep them all.
_REMEMBERED = 200_000
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600


class Answering(ABC):
    """An endpoint that is not served yet; any number of threads may call it."""

    def __init__(self) -> None:
        # In order; each fault gets the result of the one before it.
        self.faults: list[InjectedFault] = []
        self.asked: deque[FakeRequest] = deque(maxlen=_REMEMBERED)

    def count(self, method: str) -> int:
        """Return how often a method was requested; each call of a batch counts."""
        return sum(asked.method == method for asked in tuple(self.asked))

    @abstractmethod
    def answer(self, method: str, params: Sequence[Any]) -> Any:  # noqa: ANN401 - JSON
        """Return the honest result of one call.

        Raises:
            FakeRpcError: the call fails, as on a real endpoint.
        """

    def blocks_of(self, _method: str, _params: Sequence[Any]) -> tuple[int, int] | None:
        """Return the first and last block that a call is about, or None if it names none."""
        return None

    def answers(self, asked: Sequence[FakeRequest]) -> list[object]:
        """Return the honest results of several calls; errors are returned, not raised."""
        return [self._honest(one) for one in asked]

    def subscribe(self, _hear: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        """Register a callback for each new header, and return a function that ends it."""
        raise FakeRpcError(-32601, "notifications not supported")

    def _honest(self, asked: FakeRequest) -> object:
        try:
            return self.answer(asked.method, asked.params)
        except FakeRpcError as error:
            return error
        except (KeyError, IndexError, TypeError, ValueError) as error:
            return FakeRpcError(-32602, f"invalid argument: {type(error).__name__}")

    def striking(self) -> tuple[InjectedFault, ...]:
        """Return the faults that apply to one HTTP request, in order."""
        return tuple(self.faults)

    def post(self, body: bytes) -> Http:
        """Handle the body of a POST request."""
        try:
            said = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return _whole(_failure(None, FakeRpcError(_PARSE_ERROR, "parse error")))
        parts = said if isinstance(said, list) else [said]
        if not parts or not all(isinstance(one, dict) and "method" in one for one in parts):
            return _whole(_failure(None, FakeRpcError(_INVALID_REQUEST, "invalid request")))
        asked = [self._asked(one) for one in parts]
        self.asked.extend(asked)
        faults = self.striking()
        answers = [
            _spoiled(faults, one, answer)
            for one, answer in zip(asked, self.answers(asked), strict=True)
        ]
        whole = next((answer for answer in answers if isinstance(answer, Http)), None)
        if whole is not None:
            return whole
        sent = [_sent(part.get("id"), one) for part, one in zip(parts, answers, strict=True)]
        return _packed(faults, asked, sent if isinstance(said, list) else sent[0])

    def _asked(self, part: dict[str, Any]) -> FakeRequest:
        method, params = str(part["method"]), tuple(part.get("params") or ())
        try:
            blocks = self.blocks_of(method, params)
        except (KeyError, IndexError, TypeError, ValueError, FakeRpcError):
            blocks = None
        return FakeRequest(method, params, blocks)


def _spoiled(faults: Sequence[InjectedFault], asked: FakeRequest, answer: object) -> object:
    for fault in faults:
        if isinstance(answer, Http):
            break
        answer = fault.one(asked, answer)
    return answer


def _packed(faults: Sequence[InjectedFault], asked: Sequence[FakeRequest], made: object) -> Http:
    for fault in faults:
        if isinstance(made, list):
            made = fault.batch(asked, made)
    if isinstance(made, Http):
        return made
    body = msgspec.json.encode(made)
    for fault in faults:
        instead = fault.body(asked, body)
        if instead is not None:
            return instead
    return Http(body=body)


def _sent(number: object, answer: object) -> dict[str, Any]:
    if isinstance(answer, FakeRpcError):
        return _failure(number, answer)
    return {"jsonrpc": "2.0", "id": number, "result": answer}


def _failure(number: object, error: FakeRpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": error.written()}


def _whole(answer: dict[str, Any]) -> Http:
    return Http(body=msgspec.json.encode(answer))
