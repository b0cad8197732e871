"""A line to one endpoint, for calls and for sending: one request, one answer, no retries.

A lost answer to `eth_sendRawTransaction` must stay lost: only the outbox may send again.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import requests
from typing_extensions import override

from oracle.errors import TransientError
from oracle.telemetry.metrics import RPC_CALLS, RPC_ERRORS, RPC_SECONDS

_TIMEOUT_SECONDS = 10.0
# Endpoints that limit batches begin at a hundred; a day's finality can ask for thousands.
_MOST_AT_ONCE = 100

# Whatever shape an endpoint's JSON has.
Json: TypeAlias = Any
# A method and its parameters.
Request = tuple[str, Sequence[Any]]


class RefusedError(TransientError):
    """The endpoint understood and said no; `output` is what a reverted call returned."""

    def __init__(self, line: str, method: str, message: str, output: str | None) -> None:
        super().__init__(f"{line} refused {method}: {message}")
        self.message = message
        self.output = output


class Line:
    """One endpoint. Its URL may hold a key, so that only the host is ever shown."""

    def __init__(self, url: str, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> None:
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._session = requests.Session()
        self.name = urlsplit(url).hostname or "endpoint"

    @override
    def __repr__(self) -> str:
        return f"Line({self.name})"

    def close(self) -> None:
        """Let the connection go."""
        self._session.close()

    def ask(self, method: str, *parameters: object) -> Json:
        """Return the result.

        Raises:
            RefusedError: the endpoint answered with an error.
            TransientError: no answer, or none that is JSON-RPC.
        """
        answer = self._post(_body(0, (method, parameters)), method)
        if not isinstance(answer, dict):
            raise TransientError(f"{self.name} answered {method} with something else")
        return self._result(answer, method)

    def ask_all(self, asked: Sequence[Request]) -> list[Json]:
        """Return the results of several requests, in their order, from one batch.

        Raises:
            RefusedError: one of them was refused.
            TransientError: an answer is missing.
        """
        answers = self._batch(asked)
        return [self._result(answer, asked[place][0]) for place, answer in enumerate(answers)]

    def ask_each(self, asked: Sequence[Request]) -> "list[Json | RefusedError]":
        """Return the results of several requests, or why one was refused, in their order.

        Raises:
            TransientError: an answer is missing.
        """
        return [
            self._result_or_refusal(answer, asked[place][0])
            for place, answer in enumerate(self._batch(asked))
        ]

    def _batch(self, asked: Sequence[Request]) -> list[dict[str, Any]]:
        """Ask as many at once as endpoints take, as often as that takes."""
        pieces = [asked[at : at + _MOST_AT_ONCE] for at in range(0, len(asked), _MOST_AT_ONCE)]
        return [answer for piece in pieces for answer in self._one_batch(piece)]

    def _one_batch(self, asked: Sequence[Request]) -> list[dict[str, Any]]:
        body = [_body(place, request) for place, request in enumerate(asked)]
        answers = self._post(body, asked[0][0])
        if not isinstance(answers, list) or len(answers) != len(asked):
            raise TransientError(f"{self.name} did not answer a batch of {len(asked)} as asked")
        by_id = {answer.get("id"): answer for answer in answers if isinstance(answer, dict)}
        if set(by_id) != set(range(len(asked))):
            raise TransientError(f"{self.name} mixed up the answers of a batch")
        return [by_id[place] for place in range(len(asked))]

    def _result_or_refusal(self, answer: dict[str, Any], method: str) -> "Json | RefusedError":
        try:
            return self._result(answer, method)
        except RefusedError as error:
            return error

    def _post(self, body: object, method: str) -> Json:
        RPC_CALLS.labels(method).inc()
        try:
            with RPC_SECONDS.labels(method).time():
                answered = self._session.post(
                    self._url, json=body, timeout=self._timeout_seconds, allow_redirects=False
                )
            answered.raise_for_status()
            return answered.json()
        except (requests.RequestException, ValueError) as error:
            RPC_ERRORS.labels(method).inc()
            # The message of either may hold the URL, and the URL a key.
            reason = type(error).__name__
            raise TransientError(f"{self.name} did not answer {method} ({reason})") from None

    def _result(self, answer: dict[str, Any], method: str) -> Json:
        error = answer.get("error")
        if error is not None:
            message = error.get("message", "") if isinstance(error, dict) else str(error)
            output = error.get("data") if isinstance(error, dict) else None
            raise RefusedError(self.name, method, str(message), _output(output))
        if "result" not in answer:
            raise TransientError(f"{self.name} answered {method} without a result")
        return answer["result"]


class Lines:
    """Every endpoint, the preferred one first; each question goes to the first that answers."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.all = tuple(lines)

    def close(self) -> None:
        """Let all connections go."""
        for line in self.all:
            line.close()

    def ask(self, method: str, *parameters: object) -> Json:
        """Return the first answer; a refusal is an answer.

        Raises:
            RefusedError: the endpoint that answered refused.
            TransientError: none answered.
        """
        return self.ask_all([(method, parameters)])[0]

    def ask_all(self, asked: Sequence[Request]) -> list[Json]:
        """Return the results of several requests, all from the same endpoint."""
        silence: TransientError | None = None
        for line in self.all:
            try:
                return line.ask_all(asked)
            except RefusedError:
                raise
            except TransientError as error:
                silence = error
        raise silence or TransientError("no endpoint is configured")


def _body(place: int, request: Request) -> dict[str, object]:
    method, parameters = request
    return {"jsonrpc": "2.0", "id": place, "method": method, "params": list(parameters)}


def _output(given: object) -> str | None:
    """Find the revert's output: some endpoints wrap it once more."""
    if isinstance(given, dict):
        given = given.get("data") or given.get("result")
    return given if isinstance(given, str) and given.startswith("0x") else None
