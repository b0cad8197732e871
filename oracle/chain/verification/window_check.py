"""One window during verification: the endpoint's answer, and the result so far."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from oracle.chain.verification.calibration import HeaderFeature
from oracle.chain.verification.full_headers import FullHeader
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Level
from oracle.domain.logs import Call, Log
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.indexer_metrics import MISSING_LOGS, VERIFY_FAILURES


class ContradictionError(RpcError):
    """An answer contradicts a header feature that is proven for the chain.

    `computed_value` is the value that the header would need: two endpoints whose answers give the
    same value agree about the chain, so they did not lie independently.
    """

    def __init__(
        self, endpoint: str, feature: HeaderFeature, header: FullHeader, words: str, *, said: str
    ) -> None:
        self.number = header.block.number
        self.feature = feature
        self.block_hash = header.block.hash
        self.said = said
        super().__init__(endpoint, ErrorKind.INVALID, f"block {self.number}: {words}")
        VERIFY_FAILURES.labels(feature, endpoint).inc()


class OmissionError(RpcError):
    """Another endpoint returned logs that this one omitted."""

    def __init__(self, endpoint: str, block: FullHeader, missing: int) -> None:
        words = f"block {block.block.number}: left {missing} logs out that its bloom knows"
        super().__init__(endpoint, ErrorKind.INVALID, words)
        note_missing(endpoint, missing)


def note_missing(endpoint: str, missing: int) -> None:
    """Count logs that an endpoint omitted or changed."""
    MISSING_LOGS.labels(endpoint).inc(missing)
    VERIFY_FAILURES.labels("logs", endpoint).inc()


@dataclass(slots=True)
class VerifiedWindow:
    """One endpoint's answer for a range of blocks, and the level that each block has reached.

    `headers` are the known headers, in order; if the window `is_whole`, they cover the range, each
    the parent of the next. `given_logs` are the endpoint's logs, or None if the receipts of every
    block are read instead; `is_pinned`: they were requested by block hash. `required_blocks` have
    to be proven in any case, even without logs or calls. `calls_by_block` are the watched calls,
    or None if no calls are watched; whether they succeeded is unknown until receipts are read.
    `logs_by_block` and `level_by_block` are the results per block.
    """

    endpoint: Endpoint
    range: BlockRange
    blocks: Sequence[FullHeader]
    given: list[Log] | None
    top: Level
    pinned: bool
    is_whole: bool
    must: Collection[int] = ()
    calls: Mapping[int, Sequence[Call]] | None = None
    logs: dict[int, list[Log]] = field(init=False)
    levels: dict[int, Level] = field(init=False)
    # Whether the endpoint's logs were replaced by proven ones.
    repaired: bool = False
    # The blocks whose receipts proved which calls succeeded.
    settled: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        by_block: dict[int, list[Log]] = defaultdict(list)
        for log in self.given or ():
            by_block[log.block].append(log)
        self.logs = dict(by_block)
        level = Level.PINNED if self.pinned else Level.SEAMED
        self.levels = {header.block.number: level for header in self.blocks}

    @property
    def name(self) -> str:
        """The shown name of the endpoint."""
        return self.endpoint.name

    @property
    def level(self) -> Level:
        """The lowest level of the blocks with known headers."""
        return min(self.levels.values())

    @property
    def proven(self) -> tuple[int, ...]:
        """The proven blocks, in order."""
        return tuple(sorted(n for n, level in self.levels.items() if level >= Level.PROVEN))

    def is_proven(self, number: int) -> bool:
        """Return whether this block was proven."""
        return self.levels[number] >= Level.PROVEN

    def repair(self, number: int, true: list[Log]) -> None:
        """Replace the endpoint's logs of a block with the proven logs."""
        self.logs[number] = true
        self.repaired = True

    def lower(self, number: int, most: Level) -> None:
        """Limit the level of a block."""
        self.levels[number] = min(self.levels[number], most)

    def leave_unproven(self, blocks: Iterable[int]) -> None:
        """Limit these blocks to levels below PROVEN, because of unproven content."""
        for number in blocks:
            if number in self.levels:
                self.lower(number, Level.BLOOMED)

    def all_logs(self) -> list[Log]:
        """Return every log, in order of (block, index)."""
        return [log for number in sorted(self.logs) for log in self.logs[number]]
