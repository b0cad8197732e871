"""The state of each endpoint for `status`, as the daemon stored it in the database."""

from collections.abc import Mapping

from pydantic import Field

from oracle.chain.source import ChainSource
from oracle.queries.answers import ApiModel
from oracle.rpc.endpoints.probe import CapabilityStore

# Seconds after which a stored state is outdated.
_STATE_TTL_SECONDS = 120.0
_UNKNOWN_STATE = "no recent state from a daemon"
_OK_STATE, _STALLED_STATE = "ok", "stalled:"


class EndpointView(ApiModel):
    """The state of an endpoint, as the daemon last observed it."""

    endpoint: str
    head: int | None = Field(description="Newest block of the endpoint; null if it is unknown.")
    lag_blocks: int | None = Field(
        description=(
            "Number of blocks by which the endpoint is behind the newest block of all "
            "endpoints; null if it is unknown."
        )
    )
    state: str


class ProbedEndpointEntry(ApiModel):
    """The properties and capabilities of an endpoint, as `endpoint probe` found them."""

    position: int = Field(description="Position of the endpoint in `[chain] endpoints`, from 1.")
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
    anchor: bool | None = Field(
        description=(
            "Whether the endpoint has the blocks whose hashes are known; null if no hash is "
            "known, if all these blocks are above its head, or if it did not answer on the "
            "configured chain."
        )
    )
    most_logs: int | None = Field(
        description=(
            "Number of logs at which the endpoint truncates a response without an error, as the "
            "daemon learned in the last day; null if it learned none."
        )
    )
    omits_logs: bool
    fault: str | None = Field(
        description=(
            "Why the endpoint cannot be used, such as another chain or missing logs; null if it "
            "can be used."
        )
    )


class EndpointReadmission(ApiModel):
    """An endpoint that was readmitted after it was proven wrong, or would be in a dry run."""

    endpoint: str
    readmitted: bool = Field(
        description="Whether the endpoint was readmitted; false in a dry run."
    )
    reason: str = Field(description="Why the endpoint was proven wrong.")
    unaudited_blocks: int


def refresh_endpoint_views(
    source: ChainSource, capabilities: CapabilityStore
) -> list[EndpointView]:
    """Store and return the states of this process's endpoints.

    No request is sent.
    """
    state_by_endpoint = dict(source.endpoints.describe_states())
    stalled_seconds = source.tracker.stalled_seconds
    head_by_endpoint: dict[str, int | None] = {}
    for endpoint in source.endpoints:
        highest_block = None if endpoint.highest_block < 0 else endpoint.highest_block
        state = state_by_endpoint[endpoint.name]
        if state == _OK_STATE and stalled_seconds is not None:
            state = f"{_STALLED_STATE} no new block for {stalled_seconds:.0f} s"
        head_by_endpoint[endpoint.name] = highest_block
        state_by_endpoint[endpoint.name] = state
        if highest_block is not None:
            capabilities.save_fact(endpoint.name, "head", str(highest_block), _STATE_TTL_SECONDS)
        capabilities.save_fact(endpoint.name, "state", state, _STATE_TTL_SECONDS)
    return _build_endpoint_views(head_by_endpoint, state_by_endpoint)


def load_endpoint_views(source: ChainSource, capabilities: CapabilityStore) -> list[EndpointView]:
    """Return the endpoint states that the daemon stored in this database.

    Endpoints that were proven wrong are listed even if no daemon runs, because the database
    records them.
    """
    wrong_endpoints = source.get_proven_wrong_endpoints()
    state_by_endpoint = dict(source.endpoints.describe_states())
    head_by_endpoint: dict[str, int | None] = {}
    for endpoint in source.endpoints:
        stored_facts = capabilities.load_facts(endpoint.name)
        head = stored_facts.get("head", "")
        head_by_endpoint[endpoint.name] = int(head) if head.isdecimal() else None
        if endpoint.name not in wrong_endpoints:
            state_by_endpoint[endpoint.name] = stored_facts.get("state", _UNKNOWN_STATE)
    return _build_endpoint_views(head_by_endpoint, state_by_endpoint)


def _build_endpoint_views(
    head_by_endpoint: Mapping[str, int | None], state_by_endpoint: Mapping[str, str]
) -> list[EndpointView]:
    newest_block = max((head for head in head_by_endpoint.values() if head is not None), default=0)
    return [
        EndpointView(
            endpoint=name,
            head=head,
            lag_blocks=None if head is None else newest_block - head,
            state=state_by_endpoint[name],
        )
        for name, head in head_by_endpoint.items()
    ]
