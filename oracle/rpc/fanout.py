"""Gives the transaction manager access to the pool: failover, queries of all, broadcasts.

Every request is sent once, and only the outbox may send a transaction again. All transactions
leave the daemon through `broadcast`. For reads, an endpoint that is quarantined or in backoff
counts as unreachable.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from typing_extensions import override

from oracle.errors import TransientError
from oracle.rpc.client import Json, RpcRequest
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.providers import WitnessQuorum
from oracle.rpc.rpc_errors import CallRefusedError, ErrorKind, RevertError, RpcError

Read = TypeVar("Read")

_SEND_METHOD = "eth_sendRawTransaction"
# Seconds within which the response to a broadcast must begin.
_SEND_TIMEOUT_SECONDS = 10.0
# The same for endpoints in backoff. They receive transactions, too, but with a shorter timeout.
_BACKOFF_SEND_TIMEOUT_SECONDS = 2.0


class EndpointCaller:
    """Sends requests to one endpoint.

    A response must begin within `timeout_seconds`.
    """

    def __init__(self, endpoint: Endpoint, timeout_seconds: float) -> None:
        self.endpoint = endpoint
        self._timeout_seconds = timeout_seconds

    @override
    def __repr__(self) -> str:
        return f"EndpointCaller({self.name})"

    @property
    def name(self) -> str:
        """The endpoint's name: its scheme, host and port."""
        return self.endpoint.name

    def request(self, method: str, *parameters: object) -> Json:
        """Send one request and return its result.

        Raises:
            CallRefusedError: the endpoint returned an error.
            RpcError: there is no JSON-RPC response, or the endpoint is quarantined or in backoff.
        """
        return self.request_all([(method, parameters)])[0]

    def request_all(self, requests: Sequence[RpcRequest]) -> list[Json]:
        """Send several requests in one batch, and return their results in order.

        Raises:
            CallRefusedError: a request was refused.
            RpcError: a response is missing, or the endpoint is quarantined or in backoff.
        """
        results = self.request_all_or_refusals(requests)
        for result in results:
            if isinstance(result, CallRefusedError):
                raise result
        return results

    def request_all_or_refusals(
        self, requests: Sequence[RpcRequest]
    ) -> "list[Json | CallRefusedError]":
        """Return the result or refusal of each request, in order.

        Raises:
            RpcError: a response is missing, or the endpoint is quarantined or in backoff.
        """
        quarantine_reason = self.endpoint.status.quarantine_reason
        if quarantine_reason is not None:
            raise RpcError(self.name, ErrorKind.QUARANTINED, quarantine_reason)
        return self._send(requests)

    def serves_chain(self, chain_id: int) -> bool:
        """Return whether the endpoint serves this chain.

        The chain id is requested until it matches, and again after the endpoint was unreachable.
        Quarantined endpoints are checked as well, because the reason for the quarantine may be
        that the endpoint served another chain.

        Raises:
            CallRefusedError: the endpoint does not report its chain id.
            RpcError: the endpoint does not respond, or was proven wrong.
        """
        endpoint = self.endpoint
        if endpoint.status.needs_readmission:
            raise RpcError(
                self.name, ErrorKind.QUARANTINED, endpoint.status.quarantine_reason or ""
            )
        if endpoint.chain_id != chain_id:
            (chain_id_hex,) = self._send([("eth_chainId", ())])
            if isinstance(chain_id_hex, CallRefusedError):
                raise chain_id_hex
            try:
                endpoint.chain_id = int(chain_id_hex, 16)
            except (TypeError, ValueError):
                raise RpcError(self.name, ErrorKind.INVALID, "eth_chainId: not a number") from None
        return endpoint.chain_id == chain_id

    def has_reached_block(self, block_number: int) -> bool:
        """Return whether the endpoint has this block.

        The result is False if the endpoint is unreachable.
        """
        if self.endpoint.status.quarantine_reason is not None:
            return False
        if self.endpoint.has_recently_reached_block(block_number):
            return True
        try:
            has_reached = int(self.request("eth_blockNumber"), 16) >= block_number
        except (TransientError, TypeError, ValueError):
            return False
        if has_reached:
            self.endpoint.record_reached_block(block_number)
        return has_reached

    def _send(self, requests: Sequence[RpcRequest]) -> "list[Json | CallRefusedError]":
        try:
            return self.endpoint.client.send_mixed_batch(
                requests, timeout_seconds=self._timeout_seconds
            )
        except CallRefusedError:
            raise
        except RpcError:
            self.endpoint.reset_chain_state()
            raise


class PoolView:
    """Some or all endpoints of a pool, in order of preference."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        timeout_seconds: float,
        quorum: WitnessQuorum,
    ) -> None:
        self._endpoints = tuple(endpoints)
        self._timeout_seconds = timeout_seconds
        # Number of configured witnesses that must agree on an irreversible decision.
        self.quorum = quorum

    @property
    def callers(self) -> tuple[EndpointCaller, ...]:
        """Callers for all endpoints in configured order, including those in backoff."""
        return tuple(
            EndpointCaller(endpoint, self._timeout_seconds) for endpoint in self._endpoints
        )

    def build_single_endpoint_views(self) -> "tuple[PoolView, ...]":
        """Return a separate view for each endpoint."""
        return tuple(self._with_endpoints([endpoint]) for endpoint in self._endpoints)

    def with_head_at_least(self, block_number: int) -> "PoolView":
        """Return a view of the endpoints whose head is at or above this block.

        Endpoints below this block are left out, because they would return outdated state. If no
        endpoint has reached the block, the view contains all endpoints.
        """
        if len(self._endpoints) < 2:  # noqa: PLR2004  there is no other to ask
            return self
        synced_endpoints = [
            caller.endpoint for caller in self.callers if caller.has_reached_block(block_number)
        ]
        return self._with_endpoints(synced_endpoints) if synced_endpoints else self

    def with_known_chain(self, chain_id: int) -> "PoolView":
        """Return a view of the endpoints that report a chain id.

        This may be the id of another chain.

        Raises:
            TransientError: no endpoint reports its chain id.
        """

        def check_caller_chain(caller: EndpointCaller) -> Endpoint:
            caller.serves_chain(chain_id)
            return caller.endpoint

        return self._with_endpoints(
            [endpoint for _, endpoint in self.read_from_each(check_caller_chain)]
        )

    def check_chain(self, chain_id: int) -> None:
        """Check that no endpoint serves another chain.

        Unreachable endpoints are checked later. Call this function before every signature. It
        sends requests only until every endpoint has responded once.

        Raises:
            TransientError: an endpoint serves another chain. The error is transient because the
                operator may correct this while the daemon waits.
        """
        for caller in self.callers:
            try:
                is_right_chain = caller.serves_chain(chain_id)
            except TransientError:
                continue
            if not is_right_chain:
                raise TransientError(
                    f"[chain] endpoints: {caller.name} does not serve chain {chain_id}; "
                    "nothing is signed; correct the address or [chain] id"
                )

    def request(self, method: str, *parameters: object) -> Json:
        """Send a request, and return the first result that an endpoint returns.

        See `request_from_first`.
        """
        return self.request_from_first([(method, parameters)])[0]

    def request_from_first(self, requests: Sequence[RpcRequest]) -> list[Json]:
        """Send several requests, and return the results from the first endpoint that answers all.

        A revert is raised only if no other endpoint returns the results, because a single endpoint
        may report a revert that does not happen.

        Raises:
            RevertError: a call reverts on an endpoint, and no endpoint returns the results.
            CallRefusedError: every endpoint that responded has refused the requests.
            TransientError: no endpoint responded.
        """
        failures: list[TransientError] = []
        for caller in self.callers:
            try:
                return caller.request_all(requests)
            except TransientError as error:
                failures.append(error)
        revert_errors = [error for error in failures if isinstance(error, RevertError)]
        refusals = [error for error in failures if isinstance(error, CallRefusedError)]
        raise [*revert_errors, *refusals, *failures][0]

    def read_from_first(self, read: Callable[[EndpointCaller], Read]) -> Read:
        """Call `read` with one endpoint after the other until one responds.

        Raises:
            TransientError: no endpoint responds.
        """
        failures: list[TransientError] = []
        for caller in self.callers:
            try:
                return read(caller)
            except TransientError as error:
                failures.append(error)
        raise failures[0]

    def read_from_each(self, read: Callable[[EndpointCaller], Read]) -> "list[tuple[str, Read]]":
        """Call `read` with each endpoint, and return the names and results of those that respond.

        Raises:
            TransientError: no endpoint responds.
        """
        results: list[tuple[str, Read]] = []
        failures: list[TransientError] = []
        for caller in self.callers:
            try:
                results.append((caller.name, read(caller)))
            except TransientError as error:
                failures.append(error)
        if not results:
            raise failures[0]
        return results

    def read_median(self, read: Callable[[EndpointCaller], int]) -> int:
        """Return the median of all witnesses' values.

        If there are two middle values, the result is the lower one. The value of a witness with
        several endpoints is the median of their values.

        Raises:
            TransientError: no endpoint responds.
        """
        numbers_by_witness: dict[str, list[int]] = defaultdict(list)
        for endpoint, number in self.read_from_each(read):
            numbers_by_witness[self.quorum.get_witness(endpoint)].append(number)
        return statistics.median_low(map(statistics.median_low, numbers_by_witness.values()))

    def _with_endpoints(self, endpoints: Sequence[Endpoint]) -> "PoolView":
        return PoolView(endpoints, self._timeout_seconds, self.quorum)


@contextmanager
def expect_response_format(description: str) -> Iterator[None]:
    """Raise TransientError if a response does not have the expected format."""
    try:
        yield
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        error_name = type(error).__name__
        raise TransientError(
            f"an endpoint returned a malformed response; expected {description} ({error_name})"
        ) from None


def parse_quantity(quantity: Json) -> int:
    """Parse a JSON-RPC quantity (`0x` and hex digits).

    Raises:
        ValueError, TypeError: it is not a quantity.
    """
    number = int(quantity, 16)
    if number < 0:
        raise ValueError(f"{quantity}: not a quantity; expected 0x and hex digits")
    return number


def broadcast(
    endpoints: Sequence[Endpoint], raw_transactions: Sequence[bytes]
) -> list[dict[str, RpcError | None]]:
    """Send transactions to every endpoint, in order, using one batch per endpoint.

    Returns a dict for each transaction, which maps the name of every endpoint to an error, or to
    None if the endpoint accepted the transaction. A `CallRefusedError` means that the endpoint
    refused the transaction. After any other error it is unknown whether the endpoint received the
    transaction. Circuit breakers, rate limits and backoff are ignored, because the transaction is
    worth a request even if it may fail. Endpoints that are quarantined because they serve another
    chain are skipped. No exception is raised.
    """
    errors_by_endpoint = {
        endpoint.name: _send_to_endpoint(endpoint, raw_transactions) for endpoint in endpoints
    }
    return [
        {name: errors[position] for name, errors in errors_by_endpoint.items()}
        for position in range(len(raw_transactions))
    ]


def _send_to_endpoint(
    endpoint: Endpoint, raw_transactions: Sequence[bytes]
) -> list[RpcError | None]:
    """Send transactions to an endpoint, and return the error of each.

    The error is None for an accepted transaction.
    """
    if endpoint.status.is_on_other_chain:
        reason = endpoint.status.quarantine_reason or ""
        quarantine_error = RpcError(endpoint.name, ErrorKind.QUARANTINED, reason)
        return [quarantine_error] * len(raw_transactions)
    requests = [
        (_SEND_METHOD, ("0x" + raw_transaction.hex(),)) for raw_transaction in raw_transactions
    ]
    timeout_seconds = (
        _BACKOFF_SEND_TIMEOUT_SECONDS
        if endpoint.health.get_backoff_seconds() > 0
        else _SEND_TIMEOUT_SECONDS
    )
    try:
        responses = endpoint.client.send_mixed_batch(
            requests, timeout_seconds=timeout_seconds, ignore_backoff=True
        )
    except RpcError as error:
        endpoint.reset_chain_state()
        return [error] * len(raw_transactions)
    return [response if isinstance(response, RpcError) else None for response in responses]
