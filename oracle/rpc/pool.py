"""Several endpoints of one chain: the first that is well does the work, or else the next one.

The order of the settings holds; one that failed, or is far slower than another, loses its place
until it has been good for a minute (docs/explanation/endpoints.md#order). Before it is used its
chain is proven: at the start, after every failure, on each switch and every hour.
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

# How long who sends waits for an answer to begin.
VIEW_SECONDS = 10.0
# It is slow when the other one answers the same so many seconds sooner.
_SLOWER_SECONDS = 2.0
# Where there is nobody else, what failed too often is tried so long after its last failure.
_LEAST_WAIT = 3.0


class EndpointPool:
    """Endpoints in the order of preference; may be used by several threads at once.

    Raises:
        NoRpcError: there is none.
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
        # Who did the last work.
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
        """Return the endpoints at these addresses; asks none yet. See `JsonRpcClient`.

        `providers`: the provider's name by host, where the host does not tell; see `provider_of`.

        Raises:
            NoRpcError: no address is given.
            InputError: one is no http(s) address.
        """
        endpoints = []
        for url in map(str.strip, urls):
            client = JsonRpcClient(url, timeout_seconds=timeout_seconds, max_bytes=max_bytes)
            endpoints.append(Endpoint(client, clock, provider_of(url, providers)))
        return cls(endpoints, chain_id, clock)

    def close(self) -> None:
        """Let all connections go."""
        for endpoint in self._list:
            endpoint.close()

    def view(self, timeout_seconds: float = VIEW_SECONDS) -> PoolView:
        """Return the endpoints as who sends, or looks beside the indexer, asks them."""
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
        """Each, in the order of the settings, and who of them was proven wrong."""
        return self._list

    def providers(self) -> dict[str, str]:
        """Return the provider of each endpoint, by the endpoint's name, in order of preference."""
        return {endpoint.name: endpoint.provider for endpoint in self._list}

    @property
    def witness_quorum(self) -> WitnessQuorum:
        """Who counts as a witness among the endpoints, and how many have to agree."""
        return WitnessQuorum(self.providers())

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Blocks that every endpoint must show."""
        return tuple(self._checkpoints.values())

    def hold(self, checkpoint: Checkpoint) -> None:
        """Let no endpoint be used from now on that shows another block at this height."""
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
        """Let one endpoint do all of `work`, so that its parts come from one view of the chain.

        `only` and `avoid` are names of endpoints.

        Raises:
            TransientError: none could, and why the last one could not.
            InputError: `only` names none; all are on another chain, and were from the start.
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
        """Return the endpoints besides `than` that may be asked, best first.

        Those that are quarantined or have asked us to wait are left out. Prove each before it is
        asked.
        """
        return self._usable_without({than})

    def other_witnesses(self, than: str) -> list[Endpoint]:
        """Return what `others` does, but for endpoints that are one witness with `than`."""
        return self._usable_without(self.witness_quorum.same_witness(than))

    def _usable_without(self, names: Container[str]) -> list[Endpoint]:
        chosen = [endpoint for endpoint in self._list if endpoint.name not in names]
        return [
            endpoint for endpoint in self._list.by_preference(chosen) if endpoint.refusal() is None
        ]

    def prove(self, endpoint: Endpoint, *, seconds: float | None = None) -> None:
        """Make sure that the endpoint is on our chain; asks only where that is not known.

        `seconds` is how long the first answer may take; None: as usual.

        Raises:
            RpcError: it does not answer, or is on another chain and quarantined for it.
            InputError: all are on another chain, and were from the start.
        """
        endpoint = self._list.of(endpoint)
        if endpoint.status.is_proven(self.clock()):
            return
        if endpoint.status.until_readmitted:
            raise RpcError(endpoint.name, ErrorKind.QUARANTINED, endpoint.status.quarantined or "")
        # Who waits for an endpoint to come up calls this again and again.
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
        """Prove every endpoint anew before it is used again: something does not fit."""
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
        """Use the endpoint no more, until its chain is found right again, or a restart.

        `checkpoint` is a block that it must show besides the usual ones before it is trusted.
        `is_foreign`: it shows another chain, and is not sent to either.
        """
        endpoint = self._list.of(endpoint)
        endpoint.status.quarantine(reason, self.clock(), checkpoint, is_foreign=is_foreign)
        metrics.QUARANTINED.labels(endpoint.name).set(1)
        structlog.get_logger().error("endpoint_quarantined", endpoint=endpoint.name, reason=reason)
        self._list.count_usable()

    def quarantined(self) -> dict[str, str]:
        """Return who is not used at all, by name, and why."""
        return {
            endpoint.name: endpoint.status.quarantined
            for endpoint in self._list
            if endpoint.status.quarantined is not None
        }

    def states(self) -> dict[str, str]:
        """Return in a word how each endpoint is, by name; of a quarantine also why."""
        now = self.clock()
        return {endpoint.name: endpoint.status.in_a_word(now) for endpoint in self._list}

    def deprioritise(self, endpoint: Endpoint | str, check: str) -> None:
        """Prefer others for a while: its answers contradict themselves, or another one's."""
        endpoint = self._list.of(endpoint)
        metrics.INCONSISTENT.labels(endpoint.name, check).inc()
        endpoint.status.mark_degraded(self.clock())

    def acquit(self, endpoints: Iterable[Endpoint]) -> None:
        """Take back what was held against them: nobody was any better."""
        for endpoint in endpoints:
            self._list.of(endpoint).status.acquit()
        self._list.count_usable()

    def restore_endpoints_after_outvote(self, outvoted: str) -> None:
        """Prefer again the endpoints that were behind one that was outvoted."""
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
            # On each switch: what it showed before may not be what it shows now.
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
        """Prefer other endpoints for a while: this one failed at something outside of `use`."""
        self._failed(endpoint, error)
        self._list.count_usable()

    def _failed(self, endpoint: Endpoint, error: RpcError) -> None:
        if endpoint.status.record_failure(error, self.clock()):
            self.quarantine(endpoint, f"refused us again and again: {error.words}")

    def _compare_speed(self, endpoint: Endpoint) -> None:
        """Take its place from an endpoint that is far slower than another one was."""
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
