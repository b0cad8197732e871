"""The sections `[chain]` and `[history]`.

Which chain, through which endpoints, from where, how deep is final; and where final blocks are
fetched, verified and decoded.
"""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from oracle.chain.hex_names import parse_hash
from oracle.daemon.config.processors import usable_processors
from oracle.daemon.config.redaction import SECRET, SecretText
from oracle.daemon.config.sections import SecretUrls, Section
from oracle.rpc.endpoints.providers import host_of

# More workers gain nothing on one chain: its writer takes in what these prepare.
_MOST_WORKERS = 3


def _websocket_url(value: str) -> str:
    if urlsplit(value).scheme not in {"ws", "wss"} or not urlsplit(value).hostname:
        raise ValueError("a websocket is a ws:// or wss:// address")
    return value


WebsocketUrl = Annotated[str, AfterValidator(_websocket_url), SECRET]
BlockHash = Annotated[str, AfterValidator(parse_hash)]
ProviderName = Annotated[str, Field(pattern=r"^[\w .-]{1,40}$")]


class ChainSection(Section):
    # The chain that the daemon works for; checked at every start, at every endpoint.
    id: int = Field(gt=0)
    # JSON-RPC addresses, the first preferred; keys in them are never shown.
    endpoints: SecretUrls = Field(min_length=1)
    # The provider of an endpoint, by the host of its URL, where the host itself does not tell:
    # providers = { "eth.example.com" = "example", "example-gateway.net" = "example" }. Endpoints
    # of one provider are one witness: a final block is confirmed by another provider.
    providers: dict[SecretText, ProviderName] = Field(default_factory=dict)
    # `ws://` or `wss://`: says when to look, nothing else; polling goes on without it.
    websocket: WebsocketUrl | None = None
    # A block that every endpoint must show with `chain.checkpoint_hash`; the genesis block is
    # compared anyway.
    checkpoint_block: int | None = Field(default=None, ge=0)
    # The hash of `chain.checkpoint_block`; give both or none.
    checkpoint_hash: BlockHash | None = None
    # The block in which the first contract was deployed.
    start_block: int = Field(default=0, ge=0)
    # Blocks under the head that are final, if the chain has no earlier word.
    finality_depth: int = Field(default=64, ge=1)
    # A final block is older than the head by so many seconds of block time as well; for
    # chains with quick blocks.
    finality_seconds: int = Field(default=0, ge=0)
    # How often to look for a new block.
    poll_seconds: float = Field(default=1.0, gt=0, le=600)
    # The largest answer that is read, in MiB (1 to 1,024). What is larger is asked for in
    # parts: fewer blocks, then one block by its transactions (`block_fetched_per_transaction` in
    # the log), which takes a request for every hundred of them. Memory holds some ten times
    # as much.
    max_response_mib: int = Field(default=64, ge=1, le=1024)

    @model_validator(mode="after")
    def _checkpoint_is_whole(self) -> Self:
        if (self.checkpoint_block is None) != (self.checkpoint_hash is None):
            raise ValueError("checkpoint_block and checkpoint_hash: give both or none")
        return self

    @model_validator(mode="after")
    def _providers_have_endpoints(self) -> Self:
        if self.providers.keys() - set(map(host_of, self.endpoints)):
            # Without the host, which may have a key in it.
            raise ValueError(
                "providers: an entry is the host of no endpoint; name hosts of chain.endpoints, "
                "in lower case"
            )
        return self


class HistorySection(Section):
    # `processes`: history is prepared by workers beside the daemon, and taken in by it in order;
    # they are started where 2,000 blocks or more are to be read, and end when they are not
    # needed. `inline`: by the daemon itself. `auto`: `processes`, but on one core `inline`.
    # `dask`: by the workers of a Dask cluster, which may be other machines (needs the extra
    # `dask`). What is stored is the same.
    executor: Literal["auto", "processes", "inline", "dask"] = "auto"
    # Where the cluster's scheduler is, with `dask`: "tcp://10.0.0.7:8786", or "tls://" as Dask's
    # own configuration says. Whoever reaches it runs code on the workers: a private network.
    scheduler: str | None = Field(default=None, pattern=r"^(tcp|tls)://[^/@\s]+:\d+$")
    # How many workers; by default one for every core, three at most, and three with `dask`. More
    # gain nothing on one chain: the daemon writes no faster.
    workers: int | None = Field(default=None, ge=1, le=64)
    # Where segments that are ready and not due survive a crash (256 MiB at most); by default
    # beside SQLite's file, and with PostgreSQL nowhere: they are prepared anew.
    stage: Path | None = None

    @model_validator(mode="after")
    def _workers_have_work(self) -> Self:
        if self.executor == "inline" and (self.workers is not None or self.stage is not None):
            raise ValueError('with executor = "inline" there are no workers, and no stage')
        if (self.executor == "dask") != (self.scheduler is not None):
            raise ValueError('executor = "dask" and scheduler: give both or none')
        return self


def stage_of(told: HistorySection, database_url: str) -> Path | None:
    """Return the folder of staged segments; None: there is none."""
    if told.stage is not None:
        return told.stage
    scheme, _, file = database_url.partition(":///")
    return Path(f"{file}.segments") if scheme == "sqlite" and file else None


def worker_count(told: HistorySection) -> int:
    """Return how many workers prepare history; 0: none, the daemon does it."""
    if told.executor == "inline":
        return 0
    cores = usable_processors()
    usual = _MOST_WORKERS if told.executor == "dask" else min(cores, _MOST_WORKERS)
    return told.workers or (0 if told.executor == "auto" and cores == 1 else usual)
