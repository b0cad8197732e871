"""The base class of fake endpoints, which injects faults into honest results."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.requests import FakeRequest, FakeRpcError, HttpResponse

# Maximum number of requests that are kept. No test sends so many, but a network that runs for days
# must not keep all of them.
_MAX_RECORDED_REQUESTS = 200_000
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600


class FakeEndpoint(ABC):
    """An endpoint that does not listen on a port.

    Any number of threads may call it.
    """

    def __init__(self) -> None:
        # Faults are applied in this order, each to the result of the previous one.
        self.faults: list[InjectedFault] = []
        self.received_requests: deque[FakeRequest] = deque(maxlen=_MAX_RECORDED_REQUESTS)

    def count_requests(self, method: str) -> int:
        """Count the requests of a method, including each call of a batch."""
        return sum(request.method == method for request in tuple(self.received_requests))

    @abstractmethod
    def handle_call(self, method: str, params: Sequence[Any]) -> Any:  # noqa: ANN401 - JSON
        """Return the honest result of one call.

        Raises:
            FakeRpcError: the call fails, as it would on a real endpoint.
        """

    def find_block_range(self, _method: str, _params: Sequence[Any]) -> tuple[int, int] | None:
        """Return the first and last block that a call names, or None if it names none."""
        return None

    def handle_calls(self, rpc_requests: Sequence[FakeRequest]) -> list[object]:
        """Return the honest results of several calls.

        Errors are returned rather than raised.
        """
        return [self._execute_request(request) for request in rpc_requests]

    def subscribe_new_heads(
        self, _on_header: Callable[[dict[str, Any]], None]
    ) -> Callable[[], None]:
        """Call a function for each new header.

        The result is a function that unsubscribes.
        """
        raise FakeRpcError(-32601, "notifications not supported")

    def _execute_request(self, request: FakeRequest) -> object:
        try:
            return self.handle_call(request.method, request.params)
        except FakeRpcError as error:
            return error
        except (KeyError, IndexError, TypeError, ValueError) as error:
            return FakeRpcError(-32602, f"invalid argument: {type(error).__name__}")

    def select_faults(self) -> tuple[InjectedFault, ...]:
        """Return the faults of one HTTP request, in the order in which they apply."""
        return tuple(self.faults)

    def handle_post(self, body: bytes) -> HttpResponse:
        try:
            request_json = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return _encode_http_response(
                _build_error_response(None, FakeRpcError(_PARSE_ERROR, "parse error"))
            )
        calls = request_json if isinstance(request_json, list) else [request_json]
        if not calls or not all(isinstance(call, dict) and "method" in call for call in calls):
            return _encode_http_response(
                _build_error_response(None, FakeRpcError(_INVALID_REQUEST, "invalid request"))
            )
        requests = [self._parse_request(call) for call in calls]
        self.received_requests.extend(requests)
        faults = self.select_faults()
        results = [
            _apply_faults(faults, request, result)
            for request, result in zip(requests, self.handle_calls(requests), strict=True)
        ]
        http_response = next(
            (result for result in results if isinstance(result, HttpResponse)), None
        )
        if http_response is not None:
            return http_response
        responses = [
            _build_response(call.get("id"), result)
            for call, result in zip(calls, results, strict=True)
        ]
        return _encode_with_faults(
            faults, requests, responses if isinstance(request_json, list) else responses[0]
        )

    def _parse_request(self, call: dict[str, Any]) -> FakeRequest:
        method = str(call["method"])
        params = tuple(call.get("params") or ())
        try:
            block_range = self.find_block_range(method, params)
        except (KeyError, IndexError, TypeError, ValueError, FakeRpcError):
            block_range = None
        return FakeRequest(method, params, block_range)


def _apply_faults(faults: Sequence[InjectedFault], request: FakeRequest, result: object) -> object:
    for fault in faults:
        if isinstance(result, HttpResponse):
            break
        result = fault.apply_to_result(request, result)
    return result


def _encode_with_faults(
    faults: Sequence[InjectedFault], requests: Sequence[FakeRequest], payload: object
) -> HttpResponse:
    for fault in faults:
        if isinstance(payload, list):
            payload = fault.apply_to_batch(requests, payload)
    if isinstance(payload, HttpResponse):
        return payload
    body = msgspec.json.encode(payload)
    for fault in faults:
        replacement = fault.apply_to_body(requests, body)
        if replacement is not None:
            return replacement
    return HttpResponse(body=body)


def _build_response(request_id: object, result: object) -> dict[str, Any]:
    if isinstance(result, FakeRpcError):
        return _build_error_response(request_id, result)
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _build_error_response(request_id: object, error: FakeRpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": error.to_json()}


def _encode_http_response(payload: dict[str, Any]) -> HttpResponse:
    return HttpResponse(body=msgspec.json.encode(payload))
