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
_CHECK_TIMEOUT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class EndpointRecovery:
    """Recovery of the endpoints of one pool; `clock` returns seconds.

    `quarantine` is called with an endpoint that is on another chain, and `on_failure` with an
    endpoint that does not respond.
    """

    endpoints: EndpointList
    chain_id: int
    checkpoints: Callable[[], tuple[Checkpoint, ...]]
    clock: Callable[[], float]
    quarantine: Callable[[Endpoint, str], None]
    on_failure: Callable[[Endpoint, RpcError], None]

    def recheck_due_endpoints(self, candidates: Sequence[Endpoint]) -> None:
        """Check the degraded or quarantined candidates whose next check is due."""
        now = self.clock()
        is_sole = all(
            listed_endpoint.status.quarantine_reason is not None
            for listed_endpoint in self.endpoints
        )
        for endpoint in candidates:
            status = endpoint.status
            if status.is_release_check_due(now, is_sole=is_sole):
                self._try_release(endpoint)
            elif len(candidates) > 1 and status.is_recheck_due(now):
                self._recheck(endpoint)

    def _recheck(self, endpoint: Endpoint) -> None:
        started_at = self.clock()
        try:
            mismatch = self._find_chain_mismatch(endpoint, self.checkpoints())
        except RpcError as error:
            endpoint.status.schedule_recheck(self.clock())
            self.on_failure(endpoint, error)
            return
        now = self.clock()
        if mismatch is not None:
            self.quarantine(endpoint, mismatch)
            return
        endpoint.status.mark_proven(now)
        endpoint.status.mark_recovered()
        structlog.get_logger().info("endpoint_recovered", endpoint=endpoint.name)
        endpoint.health.limit_breaker_wait(0.0)
        if now - started_at > _CHECK_TIMEOUT_SECONDS:
            endpoint.status.mark_slow(now)

    def _try_release(self, endpoint: Endpoint) -> None:
        status, checkpoints = endpoint.status, self.checkpoints()
        if status.release_checkpoint is not None:
            checkpoints = (*checkpoints, status.release_checkpoint)
        try:
            mismatch = self._find_chain_mismatch(endpoint, checkpoints)
        except RpcError as error:
            mismatch = str(error)
        if mismatch is not None:
            status.schedule_release_check(self.clock())
            return
        status.release_from_quarantine(self.clock())
        metrics.QUARANTINED.labels(endpoint.name).set(0)
        structlog.get_logger().warning("endpoint_released", endpoint=endpoint.name)
        self.endpoints.update_usable_metric()

    def _find_chain_mismatch(
        self, endpoint: Endpoint, checkpoints: Sequence[Checkpoint]
    ) -> str | None:
        endpoint.health.limit_breaker_wait(0.0)
        return endpoint.find_chain_mismatch(
            self.chain_id, checkpoints, timeout_seconds=_CHECK_TIMEOUT_SECONDS
        )
