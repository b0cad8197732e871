"""The endpoints of one chain: the first healthy one does the work, else the next one.

The configured order applies. An endpoint that failed, or is much slower than another one, loses
its place until it has been healthy for a minute (docs/explanation/endpoints.md#order). Its chain
is proven before it is used: at the start, after every failure, on each switch and every hour.
"""

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Self, TypeVar

import structlog

from oracle.errors import InputError
from oracle.rpc.broadcast import BroadcastAnswer, broadcast
from oracle.rpc.client import ANSWER_SECONDS, MOST_BYTES, JsonRpcClient
from oracle.rpc.endpoints.checkpoints import Checkpoint
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.endpoint_list import EndpointList
from oracle.rpc.endpoints.providers import WitnessQuorum, provider_of
from oracle.rpc.endpoints.recovery import EndpointRecovery
from oracle.rpc.fanout import PoolView
from oracle.rpc.rpc_errors import ErrorKind, RpcError, all_failed
from oracle.telemetry import rpc_metrics as metrics

T = TypeVar("T")

# How long a sending request waits for a response to begin.
VIEW_SECONDS = 10.0
# An endpoint is slow if another one answers the same request this many seconds sooner.
_SLOWER_SECONDS = 2.0
# Without an alternative, a circuit breaker is tried again this long after its last failure.
_LEAST_WAIT = 3.0


class EndpointPool:
    """Endpoints in order of preference; thread-safe.

    Raises:
        NoEndpointError: there is no endpoint.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        chain_id: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.chain_id = chain_id
        self.clock = clock
        self._list = EndpointList(endpoints, clock)
        self._checkpoints: dict[int, Checkpoint] = {}
        self._recovery = EndpointRecovery(
            self._list,
            chain_id,
            lambda: self.checkpoints,
            clock,
            lambda endpoint, fault: self.quarantine(endpoint, fault, is_foreign=True),
            self._failed,
        )
        # The endpoint that did the last work.
        self._last: Endpoint | None = None
        self._list.count_usable()

    @classmethod
    def open(
        cls,
        urls: Iterable[str],
        chain_id: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        timeout_seconds: float = ANSWER_SECONDS,
        max_bytes: int = MOST_BYTES,
        providers: Mapping[str, str] | None = None,
    ) -> Self:
        """Return a pool of the endpoints at these URLs; sends no request yet.

        See `JsonRpcClient`. `providers` maps a host to its provider, where the host name does not
        show it; see `provider_of`.

        Raises:
            NoEndpointError: there is no URL.
            InputError: a URL is not an http(s) address.
        """
        endpoints = []
        for url in map(str.strip, urls):
            client = JsonRpcClient(url, timeout_seconds=timeout_seconds, max_bytes=max_bytes)
            endpoints.append(Endpoint(client, clock, provider_of(url, providers)))
        return cls(endpoints, chain_id, clock)

    def close(self) -> None:
        """Close all connections."""
        for endpoint in self._list:
            endpoint.close()

    def view(self, timeout_seconds: float = VIEW_SECONDS) -> PoolView:
        """Return a view of the endpoints for sending and for reads besides the indexer's."""
        return PoolView(tuple(self._list), timeout_seconds, self.witness_quorum)

    def broadcast(self, raws: Sequence[bytes]) -> list[list[BroadcastAnswer]]:
        """Send signed transactions to every endpoint, once each; see `rpc.broadcast`."""
        return broadcast(tuple(self._list), raws)

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._list)

    def __len__(self) -> int:
        return len(self._list)

    @property
    def listed(self) -> EndpointList:
        """Endpoints in configured order, with those that were proven wrong."""
        return self._list

    def providers(self) -> dict[str, str]:
        """Return the provider of each endpoint, by the endpoint's name, in order of preference."""
        return {endpoint.name: endpoint.provider for endpoint in self._list}

    @property
    def witness_quorum(self) -> WitnessQuorum:
        """Witnesses among the endpoints, and how many of them have to agree."""
        return WitnessQuorum(self.providers())

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Blocks that every endpoint must show."""
        return tuple(self._checkpoints.values())

    def hold(self, checkpoint: Checkpoint) -> None:
        """Require this block of every endpoint from now on, and prove each of them again."""
        if self._checkpoints.get(checkpoint.number) != checkpoint:
            self._checkpoints[checkpoint.number] = checkpoint
            self.recheck()

    def use(
        self,
        work: Callable[[Endpoint], T],
        *,
        only: str | None = None,
        avoid: Iterable[str] = (),
    ) -> T:
        """Run all of `work` with one endpoint, so that its parts come from one view of the chain.

        `only` and `avoid` are names of endpoints.

        Raises:
            TransientError: every endpoint failed; the message has the last failure.
            InputError: `only` names no endpoint, or all are on another chain since the start.
        """
        chosen = self._asked_for(only, set(avoid))
        self._recovery.call_back(chosen)
        failures: list[RpcError] = []
        for endpoint in self._list.by_preference(chosen):
            endpoint.health.bear()
            refusal = endpoint.refusal()
            if refusal is None:
                try:
                    return self._work(endpoint, work, failures)
                except RpcError as error:
                    refusal = error
                    self._failed(endpoint, error)
            failures.append(refusal)
        self._list.count_usable()
        if not failures:
            raise RpcError("every endpoint", ErrorKind.BACKOFF, "there is no other one to ask")
        if all(failure.kind is ErrorKind.BACKOFF for failure in failures):
            self._list.wait_at_most(_LEAST_WAIT)
        failure = all_failed(failures)
        failure.retry_after = self._list.seconds_left(failures)
        raise failure

    def others(self, than: str) -> list[Endpoint]:
        """Return the usable endpoints other than `excluded`, best first.

        Endpoints that are quarantined or rate-limited are left out. The caller must prove each one
        before using it.
        """
        return self._usable_without({than})

    def other_witnesses(self, than: str) -> list[Endpoint]:
        """Return `other_endpoints` without those of the same witness as `excluded`."""
        return self._usable_without(self.witness_quorum.same_witness(than))

    def _usable_without(self, names: Container[str]) -> list[Endpoint]:
        chosen = [endpoint for endpoint in self._list if endpoint.name not in names]
        return [
            endpoint for endpoint in self._list.by_preference(chosen) if endpoint.refusal() is None
        ]

    def prove(self, endpoint: Endpoint, *, seconds: float | None = None) -> None:
        """Ensure that the endpoint is on the configured chain; a recent proof is reused.

        `timeout_seconds` is how long the first response may take; None uses the client's timeout.

        Raises:
            RpcError: no response, or the endpoint is on another chain and was quarantined.
            InputError: all endpoints are on another chain since the start.
        """
        endpoint = self._list.of(endpoint)
        if endpoint.status.is_proven(self.clock()):
            return
        if endpoint.status.until_readmitted:
            raise RpcError(endpoint.name, ErrorKind.QUARANTINED, endpoint.status.quarantined or "")
        # A caller that waits for an endpoint to come up calls this repeatedly.
        endpoint.health.wait_at_most(_LEAST_WAIT)
        fault = endpoint.fault_in_chain(self.chain_id, self.checkpoints, seconds=seconds)
        if fault is None:
            endpoint.status.prove(self.clock())
            return
        endpoint.status.quarantine(fault, self.clock(), None, is_foreign=True)
        if all(one.status.is_of_another_chain for one in self._list):
            raise InputError(f"[chain] endpoints: {endpoint.name} {fault}")
        self.quarantine(endpoint, fault, is_foreign=True)
        raise RpcError(endpoint.name, ErrorKind.QUARANTINED, fault)

    def recheck(self) -> None:
        """Require a new proof of every endpoint before its next use."""
        for endpoint in self._list:
            endpoint.status.unprove()

    def quarantine(
        self,
        endpoint: Endpoint | str,
        reason: str,
        checkpoint: Checkpoint | None = None,
        *,
        is_foreign: bool = False,
    ) -> None:
        """Stop using the endpoint until its chain is found to be right, or until a restart.

        `checkpoint` is a block that it must show, besides the usual ones, before it is released.
        `is_foreign`: it serves another chain, so transactions are not sent to it either.
        """
        endpoint = self._list.of(endpoint)
        endpoint.status.quarantine(reason, self.clock(), checkpoint, is_foreign=is_foreign)
        metrics.QUARANTINED.labels(endpoint.name).set(1)
        structlog.get_logger().error("endpoint_quarantined", endpoint=endpoint.name, reason=reason)
        self._list.count_usable()

    def quarantined(self) -> dict[str, str]:
        """Return the reason of each quarantined endpoint, by its name."""
        return {
            endpoint.name: endpoint.status.quarantined
            for endpoint in self._list
            if endpoint.status.quarantined is not None
        }

    def states(self) -> dict[str, str]:
        """Return a short description of each endpoint's state, by its name."""
        now = self.clock()
        return {endpoint.name: endpoint.status.in_a_word(now) for endpoint in self._list}

    def deprioritise(self, endpoint: Endpoint | str, check: str) -> None:
        """Prefer other endpoints for a while, because this one's responses are inconsistent."""
        endpoint = self._list.of(endpoint)
        metrics.INCONSISTENT.labels(endpoint.name, check).inc()
        endpoint.status.mark_degraded(self.clock())

    def acquit(self, endpoints: Iterable[Endpoint]) -> None:
        """Clear the recorded failures of these endpoints, because no other did better."""
        for endpoint in endpoints:
            self._list.of(endpoint).status.acquit()
        self._list.count_usable()

    def restore_endpoints_after_outvote(self, outvoted: str) -> None:
        """Restore the endpoints that seemed to lag behind one that was outvoted."""
        self.acquit(one for one in self._list if one.name != outvoted and one.status.is_behind)

    # --- one piece of work ---

    def _asked_for(self, only: str | None, avoid: set[str]) -> list[Endpoint]:
        chosen = self._list
        if only is not None and only not in {endpoint.name for endpoint in chosen}:
            names = ", ".join(endpoint.name for endpoint in chosen)
            raise InputError(f"{only} is none of the endpoints: {names}")
        return [
            endpoint
            for endpoint in chosen
            if endpoint.name not in avoid and only in {None, endpoint.name}
        ]

    def _work(
        self, endpoint: Endpoint, work: Callable[[Endpoint], T], failures: Sequence[RpcError]
    ) -> T:
        if self._last is not None and self._last is not endpoint:
            # Prove again on each switch: the node behind the address may have changed.
            endpoint.status.unprove()
        self.prove(endpoint)
        result = work(endpoint)
        endpoint.status.worked()
        if self._last is not None and self._last is not endpoint:
            reason = failures[-1].kind.value if failures else "preferred"
            metrics.SWITCHES.labels(endpoint.name, reason).inc()
            if failures:
                structlog.get_logger().warning(
                    "endpoint_replaced",
                    endpoint=self._last.name,
                    by=endpoint.name,
                    reason=str(failures[-1]),
                )
        self._last = endpoint
        self._compare_speed(endpoint)
        self._list.count_usable()
        return result

    def record_failure(self, endpoint: Endpoint, error: RpcError) -> None:
        """Record a failure outside of `run_with_endpoint`; others are preferred for a while."""
        self._failed(endpoint, error)
        self._list.count_usable()

    def _failed(self, endpoint: Endpoint, error: RpcError) -> None:
        if endpoint.status.record_failure(error, self.clock()):
            self.quarantine(endpoint, f"refused us again and again: {error.words}")

    def _compare_speed(self, endpoint: Endpoint) -> None:
        """Demote the endpoint if it is much slower than another one was."""
        for other in self._list:
            if other is not endpoint and other.refusal() is None:
                slower = endpoint.health.slower_than(other.health)
                if slower > _SLOWER_SECONDS:
                    endpoint.status.was_slow(self.clock())
                    endpoint.health.forget_speed()
                    structlog.get_logger().warning(
                        "endpoint_slow", endpoint=endpoint.name, by_seconds=round(slower, 1)
                    )
                    return
