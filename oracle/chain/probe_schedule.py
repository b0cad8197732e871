"""Probes the capabilities of each endpoint once an hour, and stores them.

One endpoint is probed at a time.
"""

from oracle.chain.log_filter import LogFilter
from oracle.domain.blocks import BlockRange
from oracle.rpc.background import BackgroundCall
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.probe import (
    DAY,
    HOUR,
    Capabilities,
    CapabilityStore,
    ProbeRequirements,
    probe_endpoint,
)
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import RpcError


class EndpointProber:
    """Probes the capabilities of a chain's endpoints.

    Probes use logs that match `log_filter`, from block `first_block` on. `capability_store`
    contains the results of earlier runs; if it is None, nothing is stored.
    """

    def __init__(
        self,
        endpoints: EndpointPool,
        log_filter: LogFilter,
        first_block: int,
        capability_store: CapabilityStore | None = None,
    ) -> None:
        self._endpoints = endpoints
        self._filter = log_filter
        self._first_block = first_block
        self._capability_store = capability_store
        # For each endpoint, the time of its next probe and the time of its last full probe.
        self._due_at: dict[Endpoint, float] = {}
        self._full_probe_at: dict[Endpoint, float] = {}
        # Probes run in the background, so that an endpoint that hangs does not block the caller.
        self.background_call: BackgroundCall[Capabilities] = BackgroundCall()
        # The endpoint that is being probed, and the start time of the probe if it is a full probe.
        self._pending_probe: tuple[Endpoint, float | None] | None = None
        if capability_store is not None:
            for endpoint in endpoints:
                endpoint.restore_capabilities(capability_store)

    def run_due_probe(self) -> dict[str, object] | None:
        """Start or finish a probe that is due.

        The result has log fields if a probe has finished. A probe that is still running is checked
        again by the next call. An endpoint whose probe failed is probed again in an hour; until
        then the circuit breakers track its failures.
        """
        if not self.background_call.is_pending:
            self._start_next_probe()
        finished_call = self.background_call.take_finished_call()
        if finished_call is None or self._pending_probe is None:
            return None
        (endpoint, full_probe_at), self._pending_probe = self._pending_probe, None
        try:
            capabilities = finished_call.result()
        except RpcError as error:
            return {"did": "probe", "endpoint": endpoint.name, "failed": error.detail}
        if full_probe_at is not None:
            self._full_probe_at[endpoint] = full_probe_at
        return self._store_capabilities(endpoint, capabilities)

    def _start_next_probe(self) -> None:
        """Start a background probe of the first endpoint that is due."""
        now = self._endpoints.clock()
        reason_by_wrong_endpoint = self._endpoints.endpoint_list.get_proven_wrong_reasons()
        usable_endpoints = (
            candidate
            for candidate in self._endpoints
            if candidate.name not in reason_by_wrong_endpoint
        )
        endpoint = next(
            (
                candidate
                for candidate in usable_endpoints
                if self._due_at.get(candidate, 0.0) <= now
            ),
            None,
        )
        if endpoint is None:
            return
        self._due_at[endpoint] = now + HOUR
        is_full_probe_due = now - self._full_probe_at.get(endpoint, -DAY) >= DAY
        requirements = self.requirements
        known_capabilities = None if is_full_probe_due else endpoint.capabilities
        self._pending_probe = endpoint, now if is_full_probe_due else None
        self.background_call.start(
            lambda: probe_endpoint(endpoint.client, requirements, known_capabilities),
            f"probe {endpoint.name}",
        )

    def _store_capabilities(
        self, endpoint: Endpoint, capabilities: Capabilities
    ) -> dict[str, object]:
        endpoint.capabilities = capabilities
        if capabilities.fault is not None:
            self._endpoints.quarantine(endpoint, capabilities.fault, is_on_other_chain=True)
            return {"did": "probe", "endpoint": endpoint.name, "fault": capabilities.fault}
        # If no tag was found, the known tags are kept, because a failing tag may work again later.
        endpoint.tags = capabilities.tags or endpoint.tags
        if self._capability_store is not None:
            endpoint.save_capabilities(self._capability_store)
        return {
            "did": "probe",
            "endpoint": endpoint.name,
            "batch": capabilities.max_batch_size,
            "tags": list(capabilities.tags),
        }

    @property
    def requirements(self) -> ProbeRequirements:
        """The requirements that every endpoint must meet."""
        (filter_params,) = self._filter.build_range_params(BlockRange(0, 0))
        log_filter = {
            key: value
            for key, value in dict(filter_params).items()  # type: ignore[call-overload]  # plain JSON
            if key in {"address", "topics"}
        }
        return ProbeRequirements(
            self._endpoints.chain_id, self._endpoints.checkpoints, log_filter, self._first_block
        )
