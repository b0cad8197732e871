"""One window on its way up the verifier: what an endpoint gave, and what became of it."""

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
    """An answer contradicts its block's header, of which the chain has proven that it is true.

    `said` is what the header would have to say instead: two endpoints whose answers make the same
    of it speak of one chain, not of two lies.
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
    """Another endpoint gave logs that this one left out."""

    def __init__(self, endpoint: str, block: FullHeader, missing: int) -> None:
        words = f"block {block.block.number}: left {missing} logs out that its bloom knows"
        super().__init__(endpoint, ErrorKind.INVALID, words)
        note_missing(endpoint, missing)


def note_missing(endpoint: str, missing: int) -> None:
    """Count logs that an endpoint did not give, or gave wrong."""
    MISSING_LOGS.labels(endpoint).inc(missing)
    VERIFY_FAILURES.labels("logs", endpoint).inc()


@dataclass(slots=True)
class VerifiedWindow:
    """One endpoint's answer for a range of blocks, and how far each block of it is proven.

    `blocks` are those whose headers are known, in order; where the window `is_whole` they are all
    there are, each the parent of the next. `given` are the logs of the endpoint, None where the
    receipts of every block are read instead; `pinned`: they were asked for by the blocks' hashes.
    `must` are blocks to be proven in any case, not only where there is something to prove.
    `calls` are the watched calls by block, None where none are watched; whether they succeeded is
    not known before the receipts are. `logs` and `levels` are those of single blocks, as proven.
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
    # Whether the endpoint gave other logs than these.
    repaired: bool = False
    # The blocks of which the receipts proved which calls succeeded.
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
        """The least level of the blocks whose headers are known."""
        return min(self.levels.values())

    @property
    def proven(self) -> tuple[int, ...]:
        """The blocks that were proven, in order."""
        return tuple(sorted(n for n, level in self.levels.items() if level >= Level.PROVEN))

    def is_proven(self, number: int) -> bool:
        """Tell whether this block was proven."""
        return self.levels[number] >= Level.PROVEN

    def repair(self, number: int, true: list[Log]) -> None:
        """Put the true logs of a block in place of those that were given."""
        self.logs[number] = true
        self.repaired = True

    def lower(self, number: int, most: Level) -> None:
        """Let a block have come no further than this."""
        self.levels[number] = min(self.levels[number], most)

    def leave_unproven(self, blocks: Iterable[int]) -> None:
        """Let none of these blocks count as proven: something in them could not be."""
        for number in blocks:
            if number in self.levels:
                self.lower(number, Level.BLOOMED)

    def all_logs(self) -> list[Log]:
        """Return every log, in order of (block, index)."""
        return [log for number in sorted(self.logs) for log in self.logs[number]]
