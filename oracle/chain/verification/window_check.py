"""A window during its verification: the endpoint's answer and the levels reached."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from oracle.chain.verification.calibration import HeaderFeature
from oracle.chain.verification.full_headers import FullHeader
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.domain.logs import Call, Log, join_logs
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.indexer_metrics import MISSING_LOGS, VERIFY_FAILURES


class ContradictionError(RpcError):
    """An answer contradicts a header feature that is proven for the chain.

    `computed_value` is the value of the feature that would match the answer. If it is the same for
    two endpoints, they agree about the content of the block.
    """

    def __init__(
        self,
        endpoint: str,
        feature: HeaderFeature,
        header: FullHeader,
        message: str,
        *,
        computed_value: str,
    ) -> None:
        self.number = header.block.number
        self.feature = feature
        self.block_hash = header.block.hash
        self.computed_value = computed_value
        super().__init__(endpoint, ErrorKind.INVALID, f"block {self.number}: {message}")
        VERIFY_FAILURES.labels(feature, endpoint).inc()


class OmissionError(RpcError):
    """Another endpoint returned logs that this endpoint omitted."""

    def __init__(self, endpoint: str, header: FullHeader, missing_count: int) -> None:
        message = (
            f"block {header.block.number}: {missing_count} logs of another endpoint are missing"
        )
        super().__init__(endpoint, ErrorKind.INVALID, message)
        record_missing_logs(endpoint, missing_count)


def record_missing_logs(endpoint: str, missing_count: int) -> None:
    """Count logs that an endpoint omitted or changed."""
    MISSING_LOGS.labels(endpoint).inc(missing_count)
    VERIFY_FAILURES.labels("logs", endpoint).inc()


@dataclass(slots=True)
class VerifiedWindow:
    """One endpoint's answer for a block range, and the level of each block so far.

    `headers` are the known headers, in order. If `has_all_headers` is true, they cover the range,
    and each is the parent of the next. `returned_logs` are the logs from the endpoint, or None if
    all receipts are read instead. `is_pinned` is whether the logs were requested by block hash.
    `required_blocks` must be proven even if they have no logs or calls. `calls_by_block` are the
    watched calls, or None if no calls are watched; only receipts show whether they succeeded.
    `logs_by_block` and `level_by_block` are the results for each block.
    """

    endpoint: Endpoint
    range: BlockRange
    headers: Sequence[FullHeader]
    returned_logs: list[Log] | None
    max_level: VerificationLevel
    is_pinned: bool
    has_all_headers: bool
    required_blocks: Collection[int] = ()
    calls_by_block: Mapping[int, Sequence[Call]] | None = None
    logs_by_block: dict[int, list[Log]] = field(init=False)
    level_by_block: dict[int, VerificationLevel] = field(init=False)
    # True if proven logs have replaced logs that the endpoint returned.
    is_repaired: bool = False
    # Blocks whose receipts have proven which calls succeeded.
    blocks_with_call_outcomes: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        logs_by_block: dict[int, list[Log]] = defaultdict(list)
        for log in self.returned_logs or ():
            logs_by_block[log.block].append(log)
        self.logs_by_block = dict(logs_by_block)
        level = VerificationLevel.PINNED if self.is_pinned else VerificationLevel.SEAMED
        self.level_by_block = {header.block.number: level for header in self.headers}

    @property
    def endpoint_name(self) -> str:
        """The display name of the endpoint."""
        return self.endpoint.name

    @property
    def min_level(self) -> VerificationLevel:
        """The lowest level of all blocks with known headers."""
        return min(self.level_by_block.values())

    @property
    def proven_blocks(self) -> tuple[int, ...]:
        """The proven blocks, in order."""
        return tuple(
            sorted(
                number
                for number, level in self.level_by_block.items()
                if level >= VerificationLevel.PROVEN
            )
        )

    def is_proven(self, number: int) -> bool:
        """Return whether a block was proven."""
        return self.level_by_block[number] >= VerificationLevel.PROVEN

    def replace_logs(self, number: int, true_logs: list[Log]) -> None:
        """Replace the endpoint's logs of a block by the proven logs."""
        self.logs_by_block[number] = true_logs
        self.is_repaired = True

    def limit_block_level(self, number: int, max_level: VerificationLevel) -> None:
        """Lower the level of a block to `max_level`, if it is higher."""
        self.level_by_block[number] = min(self.level_by_block[number], max_level)

    def mark_blocks_unproven(self, blocks: Iterable[int]) -> None:
        """Limit blocks to levels below PROVEN, because some content is unproven."""
        for number in blocks:
            if number in self.level_by_block:
                self.limit_block_level(number, VerificationLevel.BLOOMED)

    def collect_logs(self) -> list[Log]:
        """Return all logs in order of (block, index)."""
        return join_logs([self.logs_by_block[number] for number in sorted(self.logs_by_block)])
