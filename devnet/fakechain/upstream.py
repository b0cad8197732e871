"""A proxy that forwards requests to a real endpoint and injects faults into results."""

from collections.abc import Sequence
from typing import Any

import msgspec
import requests
from typing_extensions import override

from devnet.fakechain.answering import FakeEndpoint
from devnet.fakechain.requests import HASH_LENGTH, FakeRequest, FakeRpcError, HttpResponse

_TIMEOUT_SECONDS = 30
_MAX_CONNECTIONS = 16
_INTERNAL_ERROR = -32603


class UpstreamProxy(FakeEndpoint):
    """Forwards all requests to the endpoint `url`.

    A batch is forwarded as one request.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._session = requests.Session()
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=_MAX_CONNECTIONS, pool_block=True)
        self._session.mount("http://", adapter)

    def close(self) -> None:
        self._session.close()

    @override
    def handle_call(self, method: str, params: Sequence[Any]) -> Any:
        (result,) = self.handle_calls([FakeRequest(method, tuple(params))])
        if isinstance(result, FakeRpcError):
            raise result
        return result

    @override
    def handle_calls(self, rpc_requests: Sequence[FakeRequest]) -> list[object]:
        calls = [
            {
                "jsonrpc": "2.0",
                "id": request_id,
                "method": request.method,
                "params": request.params,
            }
            for request_id, request in enumerate(rpc_requests)
        ]
        try:
            body = self._session.post(
                self._url,
                data=msgspec.json.encode(calls),
                headers=_JSON_HEADERS,
                timeout=_TIMEOUT_SECONDS,
            ).content
            response_by_id = {response["id"]: response for response in msgspec.json.decode(body)}
        except (requests.RequestException, msgspec.DecodeError, KeyError, TypeError):
            return [HttpResponse(502, b"Bad Gateway", {"Content-Type": "text/plain"})] * len(
                rpc_requests
            )
        return [
            _parse_response(response_by_id.get(request_id))
            for request_id in range(len(rpc_requests))
        ]

    @override
    def find_block_range(self, _method: str, _params: Sequence[Any]) -> tuple[int, int] | None:
        """Return the range of block numbers in a call.

        Hashes and tags are not resolved.
        """
        block_argument = _params[0] if _params else None
        if isinstance(block_argument, dict):
            first_block, last_block = (
                _parse_block_number(block_argument.get(bound))
                for bound in ("fromBlock", "toBlock")
            )
        else:
            first_block = last_block = _parse_block_number(block_argument)
        return None if first_block is None or last_block is None else (first_block, last_block)


_JSON_HEADERS = {"Content-Type": "application/json"}


def _parse_block_number(block_argument: object) -> int | None:
    if (
        not isinstance(block_argument, str)
        or not block_argument.startswith("0x")
        or len(block_argument) >= HASH_LENGTH - 24
    ):
        return None
    return int(block_argument, 16)


def _parse_response(response: dict[str, Any] | None) -> object:
    if response is None:
        return FakeRpcError(_INTERNAL_ERROR, "no response from upstream")
    error = response.get("error")
    if error is None:
        return response.get("result")
    return FakeRpcError(error["code"], error["message"], error.get("data"))
