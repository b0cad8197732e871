"""The state of each endpoint for `status`, as observed by the daemon and stored in the database."""

from collections.abc import Mapping

from pydantic import Field

from oracle.chain.source import ChainSource
from oracle.queries.answers import ApiModel
from oracle.rpc.endpoints.capabilities import CapabilityStore

# Seconds after which a stored state is out of date.
_LASTING = 120.0
_UNKNOWN = "not seen by a daemon of late"
_WELL, _STALLED = "ok", "stands still:"


class EndpointView(ApiModel):
    """One endpoint as the daemon observed it last."""

    endpoint: str
    head: int | None = Field(description="Its newest block; null: unknown.")
    lag_blocks: int | None = Field(description="Below the newest block that any of them showed.")
    state: str


class ProbedEndpointEntry(ApiModel):
    """The properties and capabilities of an endpoint, as `endpoint probe` found them."""

    position: int = Field(description="In [chain] endpoints, from 1.")
    endpoint: str
    chain_id: int | None
    client: str | None
    head: int | None
    lag_blocks: int | None
    tags: list[str]
    logs_by_hash: bool | None
    block_receipts: bool | None
    batch: int | None
    oldest_logs: int | None
    anchor: bool | None = Field(description="Whether it shows the configured checkpoint.")
    most_logs: int | None = Field(description="It stops at so many logs without an error.")
    omits_logs: bool
    fault: str | None = Field(description="Why it is unfit.")


class EndpointReadmission(ApiModel):
    """An endpoint that was proven wrong and is readmitted, or would be in a dry run."""

    endpoint: str
    readmitted: bool = Field(description="False: a dry run.")
    reason: str = Field(description="Why it was proven wrong.")
    unaudited_blocks: int


def refresh_endpoint_views(source: ChainSource, facts: CapabilityStore) -> list[EndpointView]:
    """Store the state of this process's endpoints and return it; no endpoint is queried."""
    states = dict(source.endpoints.states())
    stalled = source.tracker.stalled_seconds
    heads: dict[str, int | None] = {}
    for endpoint in source.endpoints:
        head = None if endpoint.highest_block < 0 else endpoint.highest_block
        state = states[endpoint.name]
        if state == _WELL and stalled is not None:
            state = f"{_STALLED} no new block for {stalled:.0f} s"
        heads[endpoint.name] = head
        states[endpoint.name] = state
        if head is not None:
            facts.keep(endpoint.name, "head", str(head), _LASTING)
        facts.keep(endpoint.name, "state", state, _LASTING)
    return _views(heads, states)


def recall(source: ChainSource, facts: CapabilityStore) -> list[EndpointView]:
    """Return the endpoints as the daemon of this database stored them.

    An endpoint that was proven wrong is known from the database, even if no daemon runs.
    """
    wrong, states = source.proven_wrong(), dict(source.endpoints.states())
    heads: dict[str, int | None] = {}
    for endpoint in source.endpoints:
        kept = facts.recall(endpoint.name)
        head = kept.get("head", "")
        heads[endpoint.name] = int(head) if head.isdecimal() else None
        if endpoint.name not in wrong:
            states[endpoint.name] = kept.get("state", _UNKNOWN)
    return _views(heads, states)


def _views(heads: Mapping[str, int | None], states: Mapping[str, str]) -> list[EndpointView]:
    newest = max((head for head in heads.values() if head is not None), default=0)
    return [
        EndpointView(
            endpoint=name,
            head=head,
            lag_blocks=None if head is None else newest - head,
            state=states[name],
        )
        for name, head in heads.items()
    ]
