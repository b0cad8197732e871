"""Sends JSON-RPC requests over HTTP, and decodes the responses into typed objects."""

import itertools
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import msgspec

from oracle.rpc.replies import (
    JsonRpcResponse,
    extract_body_excerpt,
    get_body_decoder,
    is_response_to_other_request,
)
from oracle.rpc.rpc_errors import (
    ErrorKind,
    RpcError,
    build_error_from_body,
    build_error_from_invalid_body,
    build_error_from_status,
    build_response_too_large_error,
)
from oracle.rpc.transport import BoundedHttp, redact_url
from oracle.telemetry.metrics import RPC_CALLS, RPC_ERRORS, RPC_SECONDS

T = TypeVar("T")

# Factor between the timeout for the first byte of a response and the timeout for the complete
# response.
_TOTAL_TIMEOUT_FACTOR = 3


class JsonRpcConnection:
    """A JSON-RPC connection to one endpoint.

    See `JsonRpcClient`.
    """

    def __init__(self, url: str, timeout_seconds: float, max_bytes: int) -> None:
        redacted_url = redact_url(url, ("http", "https"), "[chain] endpoints")
        self.http = BoundedHttp(
            url, name=redacted_url, max_bytes=max_bytes, watches_certificate=True
        )
        self._timeout_seconds = timeout_seconds
        self._request_ids = itertools.count(1)

    @property
    def name(self) -> str:
        """The name of the endpoint in errors."""
        return self.http.name

    def build_request(self, method: str, params: Sequence[object]) -> dict[str, Any]:
        """Build a JSON-RPC request with a new id."""
        return {
            "jsonrpc": "2.0",
            "id": next(self._request_ids),
            "method": method,
            "params": params,
        }

    def post(
        self, method: str, call_count: int, payload: object, timeout_seconds: float | None
    ) -> bytes:
        """Send calls, and return the body of the response.

        Raises RpcError.
        """
        RPC_CALLS.labels(method).inc(call_count)
        response_timeout = timeout_seconds or self._timeout_seconds
        try:
            with RPC_SECONDS.labels(method).time():
                response = self.http.post(
                    msgspec.json.encode(payload),
                    response_timeout,
                    _TOTAL_TIMEOUT_FACTOR * response_timeout,
                )
            status_error = build_error_from_status(
                self.name, response.status, response.headers, response.body
            )
            if status_error is not None:
                raise status_error
            if response.is_truncated:
                raise build_response_too_large_error(self.name, self.http.max_bytes)
        except RpcError:
            RPC_ERRORS.labels(method).inc()
            raise
        return response.body

    def decode_response(
        self,
        method: str,
        body: bytes,
        body_type: Any,  # a type made at run time  # noqa: ANN401
        request_ids: Collection[int],
    ) -> Any:  # a type made at run time  # noqa: ANN401
        """Decode the response to requests as `body_type`.

        Raises RpcError if this fails.
        """
        try:
            return get_body_decoder(body_type).decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if is_response_to_other_request(body, request_ids):
                raise self.reset_after_misrouted_response(method) from None
            RPC_ERRORS.labels(method).inc()
            raise build_error_from_invalid_body(self.name, method, body, str(error)) from None

    def reset_after_misrouted_response(self, method: str) -> RpcError:
        """Reset connections after a response to another request, and return the error.

        The endpoint is not to blame, because a proxy in between has mixed up the responses.
        """
        self.http.reset_connections()
        return self.count_error(
            method, ErrorKind.UNREACHABLE, f"{method}: received the response to another request"
        )

    def extract_result(self, method: str, body: bytes, response: JsonRpcResponse[T]) -> T | None:
        """Return the result of a JSON-RPC response.

        Raises:
            CallRefusedError: the response has an error.
            RpcError: the response has neither a result nor an error.
        """
        if response.error is None and response.result is not msgspec.UNSET:
            return response.result
        RPC_ERRORS.labels(method).inc()
        if response.error is not None:
            raise build_error_from_body(self.name, method, response.error)
        message = f"the response has neither a result nor an error: {extract_body_excerpt(body)}"
        raise build_error_from_invalid_body(self.name, method, body, message)

    def count_error(self, method: str, kind: ErrorKind, detail: str) -> RpcError:
        """Count an error by its kind in the metrics, and return it as an exception."""
        RPC_ERRORS.labels(method).inc()
        return RpcError(self.name, kind, detail)
