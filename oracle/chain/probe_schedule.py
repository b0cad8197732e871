"""Looks at every endpoint once an hour, one at a time, and remembers what it found."""

from oracle.chain.log_filter import Filter
from oracle.domain.blocks import BlockRange
from oracle.rpc.background import BackgroundCall
from oracle.rpc.endpoints.capabilities import DAY, HOUR, Capabilities, CapabilityStore
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.probe import ProbeRequirements, probe
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import RpcError


class Prober:
    """Probes the endpoints of a chain for logs of `wanted` from block `first` on.

    `keeper` knows what was found in the last run; None: nothing is kept.
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
        # When each is to be looked at again; when what is costly was found out.
        self._due: dict[Endpoint, float] = {}
        self._whole_at: dict[Endpoint, float] = {}
        # What one is asked: who hangs must not hold up whoever calls.
        self.background_call: BackgroundCall[Capabilities] = BackgroundCall()
        # Whom it is asked, and when, if it is asked all.
        self._asked: tuple[Endpoint, float | None] | None = None
        if keeper is not None:
            for endpoint in endpoints:
                endpoint.recall(keeper)

    def turn(self) -> dict[str, object] | None:
        """Probe one endpoint that is due; return what to say about it, None: nothing (yet).

        One that has not answered in the background call's patience is looked for again in later
        turns; one that does not answer is asked again in an hour: the breakers have noticed.
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
        """Have the first one asked that is due."""
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
        # A tag that failed once may be there by now.
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
        """What an endpoint must have."""
        (asked,) = self._filter.params(BlockRange(0, 0))
        logs = {k: v for k, v in dict(asked).items() if k in {"address", "topics"}}  # type: ignore[call-overload]  # parameters are plain JSON
        return ProbeRequirements(
            self._endpoints.chain_id, self._endpoints.checkpoints, logs, self._first
        )
