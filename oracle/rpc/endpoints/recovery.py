"""Checks whether deprioritised or quarantined endpoints have recovered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from oracle.rpc.endpoints.checkpoints import Checkpoint
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.endpoint_list import EndpointList
from oracle.rpc.rpc_errors import RpcError
from oracle.telemetry import rpc_metrics as metrics

# A recovery check must be answered within this many seconds.
_ASKED_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class EndpointRecovery:
    """Recovery of the endpoints of one pool; `clock` returns seconds.

    `quarantine` is called with an endpoint on another chain, `on_failure` with one that does not
    respond.
    """

    endpoints: EndpointList
    chain_id: int
    checkpoints: Callable[[], tuple[Checkpoint, ...]]
    clock: Callable[[], float]
    quarantine: Callable[[Endpoint, str], None]
    failed: Callable[[Endpoint, RpcError], None]

    def call_back(self, chosen: Sequence[Endpoint]) -> None:
        """Check those of the candidates that are degraded or quarantined, if a check is due."""
        now = self.clock()
        is_last = all(one.status.quarantined is not None for one in self.endpoints)
        for endpoint in chosen:
            status = endpoint.status
            if status.is_to_be_released(now, is_last=is_last):
                self._release(endpoint)
            elif len(chosen) > 1 and status.wants_asking(now):
                self._ask_back(endpoint)

    def _ask_back(self, endpoint: Endpoint) -> None:
        began = self.clock()
        try:
            fault = self._fault_of(endpoint, self.checkpoints())
        except RpcError as error:
            endpoint.status.ask_later(self.clock())
            self.failed(endpoint, error)
            return
        now = self.clock()
        if fault is not None:
            self.quarantine(endpoint, fault)
            return
        endpoint.status.prove(now)
        endpoint.status.mark_recovered()
        structlog.get_logger().info("endpoint_recovered", endpoint=endpoint.name)
        endpoint.health.wait_at_most(0.0)
        if now - began > _ASKED_SECONDS:
            endpoint.status.was_slow(now)

    def _release(self, endpoint: Endpoint) -> None:
        status, wanted = endpoint.status, self.checkpoints()
        if status.release is not None:
            wanted = (*wanted, status.release)
        try:
            fault = self._fault_of(endpoint, wanted)
        except RpcError as error:
            fault = str(error)
        if fault is not None:
            status.look_later(self.clock())
            return
        status.release_now(self.clock())
        metrics.QUARANTINED.labels(endpoint.name).set(0)
        structlog.get_logger().warning("endpoint_released", endpoint=endpoint.name)
        self.endpoints.count_usable()

    def _fault_of(self, endpoint: Endpoint, wanted: Sequence[Checkpoint]) -> str | None:
        endpoint.health.wait_at_most(0.0)
        return endpoint.fault_in_chain(self.chain_id, wanted, seconds=_ASKED_SECONDS)
