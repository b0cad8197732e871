"""What every endpoint of ours does: answers honestly first, and then through its faults."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from oracle.devnet.fakechain.fault import Fault
from oracle.devnet.fakechain.requests import Asked, Http, RpcError

# More than any test asks; a network that runs for days must not keep them all.
_REMEMBERED = 200_000
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600


class Answering(ABC):
    """An endpoint before it has an address; any number of threads may ask it."""

    def __init__(self) -> None:
        # In order; each sees what the one before it made of the answer.
        self.faults: list[Fault] = []
        self.asked: deque[Asked] = deque(maxlen=_REMEMBERED)

    def count(self, method: str) -> int:
        """Return how often something was asked, batches counted by their parts."""
        return sum(asked.method == method for asked in tuple(self.asked))

    @abstractmethod
    def answer(self, method: str, params: Sequence[Any]) -> Any:  # noqa: ANN401 - JSON
        """Return the honest result.

        Raises:
            RpcError: as an endpoint would.
        """

    def blocks_of(self, _method: str, _params: Sequence[Any]) -> tuple[int, int] | None:
        """Return the first and last block that a question is about, where that can be said."""
        return None

    def answers(self, asked: Sequence[Asked]) -> list[object]:
        """Return the honest results of many questions, errors among them."""
        return [self._honest(one) for one in asked]

    def subscribe(self, _hear: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        """Have `hear` called with each new header; returns what ends it."""
        raise RpcError(-32601, "notifications not supported")

    def _honest(self, asked: Asked) -> object:
        try:
            return self.answer(asked.method, asked.params)
        except RpcError as error:
            return error
        except (KeyError, IndexError, TypeError, ValueError) as error:
            return RpcError(-32602, f"invalid argument: {type(error).__name__}")

    def striking(self) -> tuple[Fault, ...]:
        """Return the faults of one request, in order."""
        return tuple(self.faults)

    def post(self, body: bytes) -> Http:
        """Answer the body of a POST."""
        try:
            said = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return _whole(_failure(None, RpcError(_PARSE_ERROR, "parse error")))
        parts = said if isinstance(said, list) else [said]
        if not parts or not all(isinstance(one, dict) and "method" in one for one in parts):
            return _whole(_failure(None, RpcError(_INVALID_REQUEST, "invalid request")))
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

    def _asked(self, part: dict[str, Any]) -> Asked:
        method, params = str(part["method"]), tuple(part.get("params") or ())
        try:
            blocks = self.blocks_of(method, params)
        except (KeyError, IndexError, TypeError, ValueError, RpcError):
            blocks = None
        return Asked(method, params, blocks)


def _spoiled(faults: Sequence[Fault], asked: Asked, answer: object) -> object:
    for fault in faults:
        if isinstance(answer, Http):
            break
        answer = fault.one(asked, answer)
    return answer


def _packed(faults: Sequence[Fault], asked: Sequence[Asked], made: object) -> Http:
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
    if isinstance(answer, RpcError):
        return _failure(number, answer)
    return {"jsonrpc": "2.0", "id": number, "result": answer}


def _failure(number: object, error: RpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": error.written()}


def _whole(answer: dict[str, Any]) -> Http:
    return Http(body=msgspec.json.encode(answer))
