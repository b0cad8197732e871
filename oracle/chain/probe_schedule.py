"""Probes the capabilities of every endpoint once an hour, one at a time, and stores them."""

from oracle.chain.log_filter import Filter
from oracle.domain.blocks import BlockRange
from oracle.rpc.background import BackgroundCall
from oracle.rpc.endpoints.capabilities import DAY, HOUR, Capabilities, CapabilityStore
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.probe import ProbeRequirements, probe
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import RpcError


class Prober:
    """Probes the endpoints of a chain for logs matching `log_filter` from block `first_block` on.

    `capability_store` holds the results of the last run; None: nothing is persisted.
    """

    def __init__(
        self,
        endpoints: EndpointPool,
        wanted: Filter,
        first: int,
        keeper: CapabilityStore | None = None,
    ) -> None:
        self._endpoints = endpoints
        self._filter = wanted
        self._first = first
        self._keeper = keeper
        # When each endpoint is due for a probe; when its last full probe was.
        self._due: dict[Endpoint, float] = {}
        self._whole_at: dict[Endpoint, float] = {}
        # The probe runs in the background: an endpoint that hangs must not block the caller.
        self.background_call: BackgroundCall[Capabilities] = BackgroundCall()
        # The endpoint that is probed, and the start time if it is a full probe.
        self._asked: tuple[Endpoint, float | None] | None = None
        if keeper is not None:
            for endpoint in endpoints:
                endpoint.recall(keeper)

    def turn(self) -> dict[str, object] | None:
        """Start or finish one probe; return the fields to log, or None if no probe has finished.

        An endpoint that has not answered within the timeout of the background call is checked
        again on later calls; one that failed is probed again in an hour, because the circuit
        breakers track it.
        """
        if not self.background_call.is_out:
            self._begin()
        ended = self.background_call.take()
        if ended is None or self._asked is None:
            return None
        (endpoint, whole_at), self._asked = self._asked, None
        try:
            facts = ended.result()
        except RpcError as error:
            return {"did": "probe", "endpoint": endpoint.name, "failed": error.words}
        if whole_at is not None:
            self._whole_at[endpoint] = whole_at
        return self._learned(endpoint, facts)

    def _begin(self) -> None:
        """Start a background probe of the first endpoint that is due."""
        now = self._endpoints.clock()
        wrong = self._endpoints.listed.proven_wrong()
        fit = (one for one in self._endpoints if one.name not in wrong)
        endpoint = next((one for one in fit if self._due.get(one, 0.0) <= now), None)
        if endpoint is None:
            return
        self._due[endpoint] = now + HOUR
        is_whole = now - self._whole_at.get(endpoint, -DAY) >= DAY
        wanted, known = self.wanted, None if is_whole else endpoint.capabilities
        self._asked = endpoint, now if is_whole else None
        self.background_call.begin(
            lambda: probe(endpoint.client, wanted, known), f"probe {endpoint.name}"
        )

    def _learned(self, endpoint: Endpoint, facts: Capabilities) -> dict[str, object]:
        endpoint.capabilities = facts
        if facts.fault is not None:
            self._endpoints.quarantine(endpoint, facts.fault, is_foreign=True)
            return {"did": "probe", "endpoint": endpoint.name, "fault": facts.fault}
        # A tag that failed once may be supported by now.
        endpoint.tags = facts.tags or endpoint.tags
        if self._keeper is not None:
            endpoint.remember(self._keeper)
        return {
            "did": "probe",
            "endpoint": endpoint.name,
            "batch": facts.batch,
            "tags": list(facts.tags),
        }

    @property
    def wanted(self) -> ProbeRequirements:
        """The capabilities and logs that an endpoint must have."""
        (asked,) = self._filter.params(BlockRange(0, 0))
        logs = {k: v for k, v in dict(asked).items() if k in {"address", "topics"}}  # type: ignore[call-overload]  # parameters are plain JSON
        return ProbeRequirements(
            self._endpoints.chain_id, self._endpoints.checkpoints, logs, self._first
        )
