"""The sections `[chain]`, `[history]` and `[verify]` of the configuration.

They configure the chain with its endpoints, start block and finality; the workers that prepare
history; and the levels to which blocks are verified.
"""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from oracle.chain.hex_names import parse_hash
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.daemon.config.processors import count_usable_processors
from oracle.daemon.config.redaction import SECRET, SecretText
from oracle.daemon.config.sections import SecretUrls, Section
from oracle.domain.coverage import VerificationLevel
from oracle.rpc.endpoints.providers import find_repeated_url, get_host

# More workers do not help, because a single writer applies what they prepare.
_MAX_WORKERS = 3
# Higher than any chain.
_NEVER_BLOCKS = 2**63


def _check_websocket_url(value: str) -> str:
    if urlsplit(value).scheme not in {"ws", "wss"} or not urlsplit(value).hostname:
        raise ValueError("expected a ws:// or wss:// URL")
    return value


WebsocketUrl = Annotated[str, AfterValidator(_check_websocket_url), SECRET]
BlockHash = Annotated[str, AfterValidator(parse_hash)]
# The maximum of an integer column in the database.
_MAX_NUMBER = 2**63 - 1
LevelName = Literal["seamed", "pinned", "bloomed", "proven"]
# The length is limited outside the pattern for the reason given at `sections.Label`.
ProviderName = Annotated[str, Field(max_length=40, pattern=r"^[\w .-]+$")]


class ChainSection(Section):
    # The chain id, which is compared with every endpoint at every start.
    id: int = Field(gt=0, le=_MAX_NUMBER)
    # JSON-RPC URLs in order of preference. Logs and commands never show keys in these URLs.
    endpoints: SecretUrls = Field(min_length=1)
    # The provider of an endpoint, by the host of its URL, if the host does not identify it:
    # providers = { "eth.example.com" = "example", "example-gateway.net" = "example" }. Endpoints
    # of one provider count as one witness; another provider has to confirm each final block.
    providers: dict[SecretText, ProviderName] = Field(default_factory=dict)
    # `ws://` or `wss://` URL, used only to signal new heads; polling continues without it.
    websocket: WebsocketUrl | None = None
    # A block that every endpoint must return with `chain.checkpoint_hash`; the genesis block is
    # always compared.
    checkpoint_block: int | None = Field(default=None, ge=0, le=_MAX_NUMBER)
    # The hash of `chain.checkpoint_block`. Set both settings or neither.
    checkpoint_hash: BlockHash | None = None
    # The block in which the first contract was deployed.
    start_block: int = Field(default=0, ge=0, le=_MAX_NUMBER)
    # Blocks below the head at which a block is final. If the chain's `finalized` block is lower,
    # that block is the final one. A depth above 1,000,000 is rejected, because hardly any block
    # would ever be final.
    finality_depth: int = Field(default=64, ge=1, le=1_000_000)
    # For chains with fast blocks: a final block must also be older than the head by this many
    # seconds of block time.
    finality_seconds: int = Field(default=0, ge=0)
    # Seconds between two polls for a new block. If the block time is at least 0.75 s, the chain is
    # also polled when the next block is expected, at most eight times a block.
    poll_seconds: float = Field(default=1.0, gt=0, le=600)
    # The largest accepted response, in MiB (1 to 1,024). Larger data is requested in parts: first
    # for fewer blocks, and then a single block transaction by transaction
    # (`block_fetched_per_transaction` in the log), with a request for every hundred transactions.
    # Memory use is about ten times this size.
    max_response_mib: int = Field(default=64, ge=1, le=1024)

    @model_validator(mode="after")
    def _check_checkpoint(self) -> Self:
        if (self.checkpoint_block is None) != (self.checkpoint_hash is None):
            raise ValueError("checkpoint_block and checkpoint_hash: set both or neither")
        return self

    @model_validator(mode="after")
    def _check_endpoints(self) -> Self:
        positions = find_repeated_url(self.endpoints, self.providers)
        if positions is not None:
            # The URL is omitted, because it may contain a key.
            raise ValueError(
                f"endpoints: entries {positions[0]} and {positions[1]} are the same address; "
                "remove one, because an endpoint cannot confirm its own responses"
            )
        return self

    @model_validator(mode="after")
    def _check_providers(self) -> Self:
        if self.providers.keys() - set(map(get_host, self.endpoints)):
            # The host is omitted, because it may contain a key.
            raise ValueError(
                "providers: a key is not the host of any endpoint; expected hosts of "
                "chain.endpoints, in lower case"
            )
        return self


class HistorySection(Section):
    # `processes`: workers beside the daemon prepare history, and the daemon applies it in order;
    # workers start if at least 2,000 blocks have to be read, and end when they are idle. `inline`:
    # the daemon prepares history itself. `auto`: `processes`, but `inline` on a single core.
    # `dask`: the workers of a Dask cluster, possibly on other machines (needs the extra `dask`).
    # The stored data is the same.
    executor: Literal["auto", "processes", "inline", "dask"] = "auto"
    # Address of the Dask scheduler: "tcp://10.0.0.7:8786", or "tls://" as configured for Dask.
    # Anyone who can reach the scheduler can run code on the workers, so use a private network.
    scheduler: str | None = Field(default=None, pattern=r"^(tcp|tls)://[^/@\s]+:\d+$")
    # The number of workers; by default one per core, at most three, and three with `dask`. More
    # workers do not help, because the daemon cannot write faster.
    workers: int | None = Field(default=None, ge=1, le=64)
    # The folder where prepared segments survive a crash (at most 256 MiB); the default is a folder
    # beside the SQLite file. With PostgreSQL there is no default, and segments are prepared again
    # after a crash.
    stage: Path | None = None

    @model_validator(mode="after")
    def _check_workers(self) -> Self:
        if self.executor == "inline" and (self.workers is not None or self.stage is not None):
            raise ValueError('executor = "inline" has no workers; remove workers and stage')
        if (self.executor == "dask") != (self.scheduler is not None):
            raise ValueError('executor = "dask" and scheduler: set both or neither')
        return self


def resolve_stage_folder(history: HistorySection, database_url: str) -> Path | None:
    """Return the folder for staged segments, or None if segments are not staged."""
    if history.stage is not None:
        return history.stage
    scheme, _, database_path = database_url.partition(":///")
    return Path(f"{database_path}.segments") if scheme == "sqlite" and database_path else None


def resolve_worker_count(history: HistorySection) -> int:
    """Return the number of workers that prepare history, or 0 to prepare without workers."""
    if history.executor == "inline":
        return 0
    processor_count = count_usable_processors()
    default_count = (
        _MAX_WORKERS if history.executor == "dask" else min(processor_count, _MAX_WORKERS)
    )
    return history.workers or (
        0 if history.executor == "auto" and processor_count == 1 else default_count
    )


class VerifySection(Section):
    # The verification level of blocks that may still change: `seamed`, `pinned`, `bloomed`,
    # `proven`; limited by what the chain supports.
    head: LevelName = "proven"
    # The verification level of final blocks: with `proven`, every header is read, and receipts are
    # read if a bloom does not exclude the contracts; `seamed` reads few headers and proves
    # nothing.
    history: LevelName = "proven"
    # Whether receipts are used for verification; without them no block gets above `bloomed`.
    receipts: bool = True
    # Whether history is read in the same way as the head, with every header and with logs by block
    # hash.
    every_header: bool = False
    # The share of old windows that are audited again with a second endpoint, after all windows
    # have been audited once.
    audit_share: float = Field(default=0.01, ge=0, le=1, allow_inf_nan=False)


def build_verification_policy(verify: VerifySection) -> VerificationPolicy:
    """Build the verification policy of the chain source."""
    return VerificationPolicy(
        head=VerificationLevel[verify.head.upper()],
        history=VerificationLevel[verify.history.upper()],
        receipts=verify.receipts,
        every_header=verify.every_header,
    )


def compute_audit_interval(verify: VerifySection) -> int:
    """Return the number of new final blocks between two audits of old windows."""
    return round(1 / verify.audit_share) if verify.audit_share else _NEVER_BLOCKS
