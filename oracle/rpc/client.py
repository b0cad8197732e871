"""A JSON-RPC client for one HTTP endpoint: keep-alive, typed results, batches and timeouts.

This module retries no request. It learns the batch size that the endpoint accepts from refusals
(docs/explanation/ingest.md#ranges). The URL may contain keys, so only its scheme, host and port
are visible outside of this module.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec
from typing_extensions import override

from oracle.rpc.replies import (
    JsonRpcErrorBody,
    JsonRpcResponse,
    RawReader,
    index_responses_by_request_id,
    matches_request_id,
    parse_error_body,
    read_raw_responses,
)
from oracle.rpc.rpc_errors import (
    BATCH_STATUS_KINDS,
    CallRefusedError,
    ErrorKind,
    RpcError,
    build_error_from_body,
)
from oracle.rpc.wire import JsonRpcConnection
from oracle.telemetry.metrics import RPC_ERRORS

T = TypeVar("T")
R = TypeVar("R")

DEFAULT_TIMEOUT_SECONDS = 20.0
# Maximum size of a response, and the default of `chain.max_response_mib`. A larger response is
# rejected, and fewer blocks are requested instead.
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
# Initial batch size. If an endpoint refuses it, the endpoint gets smaller batches from then on.
MAX_BATCH_SIZE = 100
# A batch of this size or less is not made smaller only because of a rate limit or a timeout.
_SMALL_BATCH_SIZE = 10
# The batch size may have caused an error of these kinds. It is halved without testing whether a
# single request succeeds.
_SIZE_RELATED_KINDS = {ErrorKind.TOO_LARGE, ErrorKind.THROTTLED}
# A smaller batch would not help against an error of these kinds, so the error is raised
# immediately.
_KINDS_WITHOUT_SMALLER_BATCH = {
    ErrorKind.THROTTLED,
    ErrorKind.REFUSED,
    ErrorKind.UNREACHABLE,
    ErrorKind.UNSUPPORTED,
    ErrorKind.BACKOFF,
}
# Any JSON value that an endpoint returns.
Json: TypeAlias = Any
# Method and parameters of a request.
RpcRequest = tuple[str, Sequence[Any]]


class CallObserver(Protocol):
    """Observes the requests to an endpoint, and may refuse or retry them."""

    def send_with_retries(self, method: str, call_count: int, send: Callable[[], T]) -> T:
        """Send calls with `send`, retry them if they fail, and return the result.

        There are `call_count` calls.

        Raises:
            RpcError: the last try failed, or the observer refused to send the request.
        """
        ...

    def send_once(
        self, method: str, call_count: int, send: Callable[[], list[Json]], *, ignore_backoff: bool
    ) -> list[Json]:
        """Send calls with `send` once, without retries, and return the result.

        The calls may have different methods.

        With `ignore_backoff`, the request is sent even while the endpoint is in backoff.
        """
        ...


class _NullObserver:
    def send_with_retries(self, _method: str, _call_count: int, send: Callable[[], T]) -> T:
        return send()

    def send_once(
        self,
        _method: str,
        _call_count: int,
        send: Callable[[], list[Json]],
        *,
        ignore_backoff: bool,
    ) -> list[Json]:
        del ignore_backoff
        return send()


class JsonRpcClient:
    """A JSON-RPC client for one endpoint, which is thread-safe.

    `timeout_seconds` is how long a response may take to begin; a response of more than `max_bytes`
    is rejected.

    Raises:
        InputError: the URL is not an http(s) address.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        max_bytes: int = MAX_RESPONSE_BYTES,
        observer: CallObserver | None = None,
    ) -> None:
        self.observer: CallObserver = observer or _NullObserver()
        self._wire = JsonRpcConnection(url, timeout_seconds, max_bytes)
        # Maximum number of requests per batch if all of them have the same method.
        self.batch_limit = MAX_BATCH_SIZE
        # Maximum number of requests per batch with several methods. Some endpoints accept large
        # batches of the same method but refuse to mix methods.
        self._mixed_batch_limit = MAX_BATCH_SIZE

    @override
    def __repr__(self) -> str:
        return f"JsonRpcClient({self.name})"

    @property
    def name(self) -> str:
        """The scheme, host and port of the endpoint.

        If several endpoints share them, the pool adds a number.
        """
        return self._wire.name

    @name.setter
    def name(self, name: str) -> None:
        self._wire.http.name = name

    @property
    def server_start_time(self) -> float | None:
        """The endpoint's time minus this machine's monotonic clock, or None if unknown."""
        return self._wire.http.server_start_time

    def close(self) -> None:
        """Close the connections after requests in flight have finished."""
        self._wire.http.close()

    def call(
        self,
        method: str,
        params: Sequence[object],
        result_type: type[T],
        *,
        timeout_seconds: float | None = None,
        read_raw: RawReader[R] | None = None,
    ) -> T | R | None:
        """Send one request and return its result.

        The result is None if the endpoint returns null. With `read_raw`, the result is decoded as
        `result_type` only if `read_raw` returns None.

        Raises:
            RpcError: the request failed, or the result has another type.
        """
        result: T | R | None = self.observer.send_with_retries(
            method,
            1,
            lambda: self._send_single(method, params, result_type, timeout_seconds, read_raw),
        )
        return result

    def call_batch(
        self,
        method: str,
        params_list: Sequence[Sequence[object]],
        result_type: type[T],
        read_raw: RawReader[R] | None = None,
        *,
        timeout_seconds: float | None = None,
    ) -> list[T | R | None]:
        """Call one method with many parameter lists, in as few batches as possible.

        The endpoint decides which batches it accepts. Returns the results in the order of the
        parameters; for `read_raw` see `call`. `timeout_seconds` is how long each response may take
        to begin.

        Raises:
            RpcError: one of the calls failed, or its result has another type.
        """
        results: list[T | R | None] = []
        batch_size = self.batch_limit
        while len(results) < len(params_list):
            params_chunk = params_list[len(results) : len(results) + batch_size]
            requests = [self._wire.build_request(method, params) for params in params_chunk]
            try:
                responses = (
                    self._send_observed_batch(
                        method, requests, result_type, read_raw, timeout_seconds
                    )
                    if len(params_chunk) > 1
                    else {}
                )
            except RpcError as error:
                if _is_ambiguous_batch_error(error):
                    # The endpoint may refuse all batches, or only this call. A single request
                    # shows which of these is the case.
                    results.append(
                        self.call(
                            method,
                            params_chunk[0],
                            result_type,
                            timeout_seconds=timeout_seconds,
                            read_raw=read_raw,
                        )
                    )
                batch_size = self._shrink_batch_size(len(params_chunk), error)
                continue
            results += [
                self._get_result_or_resend(
                    method,
                    request,
                    responses.get(request["id"]),
                    result_type,
                    read_raw,
                    timeout_seconds,
                )
                for request in requests
            ]
        return results

    def send_mixed_batch(
        self,
        requests: Sequence[RpcRequest],
        *,
        timeout_seconds: float | None = None,
        ignore_backoff: bool = False,
    ) -> "list[Json | CallRefusedError]":
        """Send requests for different methods, once each, in as few batches as possible.

        Returns the results or refusals, in the order of the requests. With `ignore_backoff`, they
        are sent even while the endpoint is in backoff.

        Raises:
            RpcError: a response is missing, because of a failed connection, a timeout or a
                response to another request. It is then unknown whether the endpoint received the
                requests.
            CallRefusedError: the batch was refused as a whole.
        """
        batch_size = min(self.batch_limit, self._mixed_batch_limit)
        results: list[Json | CallRefusedError] = []
        for offset in range(0, len(requests), batch_size):
            request_chunk = requests[offset : offset + batch_size]

            def send_chunk(chunk: Sequence[RpcRequest] = request_chunk) -> list[Json]:
                if len(chunk) > 1:
                    return self._send_mixed_chunk(chunk, timeout_seconds)
                try:
                    return [self._send_single(*chunk[0], Any, timeout_seconds)]
                except CallRefusedError as refusal:
                    return [refusal]

            results += self.observer.send_once(
                request_chunk[0][0], len(request_chunk), send_chunk, ignore_backoff=ignore_backoff
            )
        return results

    def limit_batch_size(self, limit: int) -> None:
        """Limit the size of all later batches to `limit` requests."""
        self.batch_limit = max(1, min(MAX_BATCH_SIZE, limit))

    def _shrink_batch_size(self, failed_size: int, error: RpcError) -> int:
        """Return a smaller size for the next batch, or raise `error` if it would not help.

        The limit is lowered only if the size was the reason. After a timeout or an error page for
        a small batch it is not lowered, because a short outage would otherwise cause a day of
        single requests.
        """
        if (
            error.kind is ErrorKind.THROTTLED
            and error.is_for_whole_batch
            and failed_size > _SMALL_BATCH_SIZE
        ):
            # If a batch exceeds an endpoint's limit per second, the endpoint always refuses it, no
            # matter how long the client waits.
            self.batch_limit = failed_size // 2
        is_small = failed_size <= _SMALL_BATCH_SIZE
        is_timeout = is_small and error.kind is ErrorKind.SLOW
        if not _is_ambiguous_batch_error(error) and (
            is_timeout or error.kind in _KINDS_WITHOUT_SMALLER_BATCH
        ):
            raise error
        if not error.exceeds_own_limit and (
            not is_small or error.is_for_whole_batch or error.kind is ErrorKind.TOO_LARGE
        ):
            self.batch_limit = failed_size // 2
        return failed_size // 2

    def _send_observed_batch(
        self,
        method: str,
        requests: list[dict[str, Any]],
        result_type: type[Any],
        read_raw: RawReader[Any] | None,
        timeout_seconds: float | None,
    ) -> dict[int, JsonRpcResponse[Any]]:
        return self.observer.send_with_retries(
            method,
            len(requests),
            lambda: self._send_batch(method, requests, result_type, read_raw, timeout_seconds),
        )

    def _send_batch(
        self,
        method: str,
        requests: list[dict[str, Any]],
        result_type: type[Any],
        read_raw: RawReader[Any] | None,
        timeout_seconds: float | None,
    ) -> dict[int, JsonRpcResponse[Any]]:
        request_ids = {request["id"] for request in requests}
        try:
            body = self._wire.post(method, len(requests), requests, timeout_seconds)
        except RpcError as error:
            error.is_for_whole_batch = error.kind in BATCH_STATUS_KINDS
            raise
        if body[:1] == b"{":
            raise self._parse_batch_refusal(method, body, request_ids)
        if read_raw is not None:
            raw_responses = read_raw_responses(body, requests, read_raw, is_batch=True)
            if raw_responses is not None:
                return raw_responses
        responses: list[JsonRpcResponse[Any]] = self._wire.decode_response(
            method,
            body,
            list[JsonRpcResponse[result_type]],  # type: ignore[valid-type]  # made at run time
            request_ids,
        )
        response_by_id = index_responses_by_request_id(responses, request_ids)
        if response_by_id is None:
            raise self._wire.reset_after_misrouted_response(method)
        if all(response.error is not None for response in responses):
            raise self._build_batch_error(method, responses)
        return response_by_id

    def _parse_batch_refusal(
        self, method: str, body: bytes, request_ids: Collection[int]
    ) -> RpcError:
        """Parse the error of a batch that was refused as a whole.

        A smaller batch may be accepted, even if the refusal was a rate limit.
        """
        refusal: JsonRpcResponse[object] = self._wire.decode_response(
            method, body, JsonRpcResponse[object], request_ids
        )
        if (
            refusal.has_result_or_error
            and index_responses_by_request_id([refusal], request_ids) is None
        ):
            raise self._wire.reset_after_misrouted_response(method)
        if refusal.error is None:
            message = f"{method}: a single response to a batch"
            error = self._wire.count_error(method, ErrorKind.INVALID, message)
            error.is_for_whole_batch = True
            return error
        return self._build_batch_error(method, [refusal])

    def _build_batch_error(
        self, method: str, responses: Sequence[JsonRpcResponse[Any]]
    ) -> RpcError:
        """Build the error for a batch whose requests were all refused."""
        error_body = parse_error_body(responses[0].error) if responses else JsonRpcErrorBody()
        error: RpcError = build_error_from_body(
            self.name, method, responses[0].error if responses else None
        )
        RPC_ERRORS.labels(method).inc()
        if error.kind is ErrorKind.THROTTLED and error_body.is_known_by_code_only():
            # This code may mean a rate limit or a size limit. Because the message does not mention
            # a rate limit, assume that the batch is too large.
            error = self._wire.count_error(method, ErrorKind.TOO_LARGE, error.detail)
        error.is_for_whole_batch = True
        return error

    def _get_result_or_resend(
        self,
        method: str,
        request: dict[str, Any],
        response: JsonRpcResponse[Any] | None,
        result_type: type[Any],
        read_raw: RawReader[Any] | None,
        timeout_seconds: float | None,
    ) -> Any:  # a result of `result_type` or of `read_raw`  # noqa: ANN401
        """Return the result of a batched request, resending the request if it has none."""
        if response is None or response.error is not None or response.result is msgspec.UNSET:
            # The batch has no result for this request. A single request returns either the result
            # or an error that operators can understand.
            return self.call(
                method,
                request["params"],
                result_type,
                timeout_seconds=timeout_seconds,
                read_raw=read_raw,
            )
        return response.result

    def _send_single(
        self,
        method: str,
        params: Sequence[object],
        result_type: type[Any],
        timeout_seconds: float | None,
        read_raw: RawReader[Any] | None = None,
    ) -> Any:  # a result of `result_type` or of `read_raw`  # noqa: ANN401
        request = self._wire.build_request(method, params)
        body = self._wire.post(method, 1, request, timeout_seconds)
        if read_raw is not None:
            raw_responses = read_raw_responses(body, [request], read_raw, is_batch=False)
            if raw_responses is not None:
                return self._wire.extract_result(method, body, raw_responses[request["id"]])
        response: JsonRpcResponse[Any] = self._wire.decode_response(
            method,
            body,
            JsonRpcResponse[result_type],  # type: ignore[valid-type]  # a type made at run time
            {request["id"]},
        )
        is_error = response.error is not None
        if response.has_result_or_error and not matches_request_id(
            response.id, request["id"], is_error=is_error
        ):
            raise self._wire.reset_after_misrouted_response(method)
        return self._wire.extract_result(method, body, response)

    def _send_mixed_chunk(
        self, requests: Sequence[RpcRequest], timeout_seconds: float | None
    ) -> "list[Json | CallRefusedError]":
        numbered_requests = [self._wire.build_request(*request) for request in requests]
        request_ids = [numbered_request["id"] for numbered_request in numbered_requests]
        method = requests[0][0]
        try:
            body = self._wire.post(
                method, len(numbered_requests), numbered_requests, timeout_seconds
            )
        except RpcError as error:
            if error.kind in BATCH_STATUS_KINDS:
                self._mixed_batch_limit = 1
            raise
        body_type = JsonRpcResponse[Any] if body[:1] == b"{" else list[JsonRpcResponse[Any]]
        decoded_body = self._wire.decode_response(method, body, body_type, request_ids)
        responses: list[JsonRpcResponse[Json]] = (
            decoded_body if isinstance(decoded_body, list) else [decoded_body]
        )
        if decoded_body is not responses or all(
            response.error is not None and response.id is None for response in responses
        ):
            raise self._build_mixed_batch_error(method, responses)
        response_by_id = index_responses_by_request_id(responses, request_ids)
        if response_by_id is None or len(response_by_id) != len(request_ids):
            raise self._wire.reset_after_misrouted_response(method)
        numbered_pairs = zip(requests, request_ids, strict=True)
        return [
            self._get_result_or_refusal(request[0], body, response_by_id[request_id])
            for request, request_id in numbered_pairs
        ]

    def _build_mixed_batch_error(
        self, method: str, responses: Sequence[JsonRpcResponse[Json]]
    ) -> RpcError:
        """Build the error of a refused mixed batch.

        Mixed batches are disabled unless the reason is a rate limit.
        """
        error_value = responses[0].error if responses else None
        if responses and error_value is None:
            self._mixed_batch_limit = 1
            return self._wire.count_error(
                method, ErrorKind.INVALID, f"{method}: a single response to a batch"
            )
        refusal = build_error_from_body(self.name, method, error_value)
        RPC_ERRORS.labels(method).inc()
        if not refusal.is_rate_limited:
            self._mixed_batch_limit = 1
        return refusal

    def _get_result_or_refusal(
        self, method: str, body: bytes, response: JsonRpcResponse[Json]
    ) -> "Json | CallRefusedError":
        try:
            return self._wire.extract_result(method, body, response)
        except CallRefusedError as refusal:
            return refusal


def _is_ambiguous_batch_error(error: RpcError) -> bool:
    """Return whether an error may concern either batches in general or this batch alone."""
    return error.is_for_whole_batch and error.kind not in _SIZE_RELATED_KINDS
