"""A web3 provider over the endpoint pool: it uses the pool's failover and sends no transaction.

Importing this module takes about a second, because of web3; import it where it is used.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

from typing_extensions import override

from oracle.errors import FatalError
from oracle.rpc.rpc_errors import RevertError

_RECURSION_LIMIT = sys.getrecursionlimit()

from web3 import Web3  # noqa: E402  # between the two lines about the limit
from web3.providers import JSONBaseProvider  # noqa: E402
from web3.types import RPCEndpoint, RPCError, RPCResponse  # noqa: E402

# py_ecc, a dependency, raises the recursion limit beyond what the C stack can hold.
sys.setrecursionlimit(_RECURSION_LIMIT)

# Only the outbox broadcasts transactions, and no endpoint holds keys.
_FORBIDDEN_METHODS = ("eth_send", "eth_sign", "personal_")
_REVERT_CODE = 3


class RequestSender(Protocol):
    """One endpoint, or the endpoints of a pool in order of preference."""

    def request_all(self, requests: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        """Return the results of several requests, all from the same endpoint.

        Raises:
            RevertError: one of them is a call that reverts.
            TransientError: no endpoint responded.
        """


class PoolProvider(JSONBaseProvider):
    """Sends each request through a new view of the endpoints; caches nothing."""

    def __init__(self, get_view: Callable[[], RequestSender]) -> None:
        super().__init__()
        self._get_view = get_view

    @override
    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Send one request; a revert is returned as web3 expects it.

        Raises:
            FatalError: the method would send or sign.
            TransientError: no endpoint responds.
        """
        return self._send([(method, params)])[0]

    @override
    def make_batch_request(self, requests: list[tuple[RPCEndpoint, Any]]) -> list[RPCResponse]:
        """Send several requests to the same endpoint at once; raises as `make_request`."""
        return self._send(requests)

    @override
    def is_connected(self, show_traceback: bool = False) -> bool:
        """Return True; only a request shows whether an endpoint responds."""
        return True

    def _send(self, requests: Sequence[tuple[RPCEndpoint, Any]]) -> list[RPCResponse]:
        for method, _ in requests:
            if method.startswith(_FORBIDDEN_METHODS):
                raise FatalError(
                    f"web3: {method} is forbidden; only the outbox may send transactions"
                )
        try:
            rpc_requests = [(str(method), list(params)) for method, params in requests]
            results = self._get_view().request_all(rpc_requests)
        except RevertError as error:
            error_body: RPCError = {"code": _REVERT_CODE, "message": error.message}
            if error.data is not None:
                error_body["data"] = error.data
            return [RPCResponse(jsonrpc="2.0", id=0, error=error_body) for _ in requests]
        return [
            RPCResponse(jsonrpc="2.0", id=position, result=result)
            for position, result in enumerate(results)
        ]


def build_web3(get_view: Callable[[], RequestSender]) -> Web3:
    """Return a web3 object without middleware: no nonce, fee, retry or cache of its own."""
    return Web3(PoolProvider(get_view), middleware=[])


@cache
def build_offline_web3() -> Web3:
    """Return a web3 object without endpoints, used only to encode and decode."""

    def refuse_requests() -> RequestSender:
        raise FatalError("the offline web3 object only encodes and decodes; it sends no request")

    return build_web3(refuse_requests)
