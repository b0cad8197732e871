"""The values of the outbox metrics, keyed by their labels.

`oracle.store` fills in these values, and every command imports `oracle.store`. To keep commands
fast, this module does not import prometheus_client.
"""

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

SECOND_BOUNDS = (
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    1800.0,
    3600.0,
    14400.0,
)
BLOCK_BOUNDS = (1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 64.0, 128.0)
BUMP_BOUNDS = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)


class BucketCounts:
    """The number of values per bucket; `bounds` are the upper bounds of the buckets."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.value_sum = 0.0

    def add_value(self, value: float) -> None:
        """Count a value; a negative value, from a clock that was set back, counts as zero."""
        value = max(0.0, value)
        self._counts[bisect_left(self.bounds, value)] += 1
        self.value_sum += value

    @classmethod
    def from_values(cls, bounds: tuple[float, ...], values: Iterable[float]) -> Self:
        bucket_counts = cls(bounds)
        for value in values:
            bucket_counts.add_value(value)
        return bucket_counts

    def copy(self) -> "BucketCounts":
        copied_counts = BucketCounts(self.bounds)
        copied_counts._counts = self._counts[:]
        copied_counts.value_sum = self.value_sum
        return copied_counts

    def iterate_cumulative_buckets(self) -> Iterator[tuple[str, float]]:
        """Yield each upper bound with the number of values up to it, as Prometheus expects."""
        cumulative_count = 0
        for bound, count in zip((*self.bounds, float("inf")), self._counts, strict=True):
            cumulative_count += count
            yield ("+Inf" if bound == float("inf") else str(bound)), cumulative_count


@dataclass(frozen=True, slots=True)
class AccountStatistics:
    """The metrics of an account; a value read from an endpoint is None while unknown.

    `runway_seconds` is how long the balance lasts at the rate of the last day, or None if nothing
    was spent. `nonce_gap` counts the allocated nonces without a transaction, between the chain's
    next nonce and the highest allocated nonce.
    """

    next_nonce: int
    open_nonces: int
    reserved_wei: int
    latest_chain_nonce: int | None = None
    final_chain_nonce: int | None = None
    balance_wei: int | None = None
    runway_seconds: float | None = None
    # Kind of the pause, or None if the account is not paused.
    pause_kind: str | None = None

    @property
    def nonce_gap(self) -> int | None:
        """Return how many nonces are missing and block later nonces, or None if unknown."""
        if self.latest_chain_nonce is None or self.latest_chain_nonce > self.next_nonce:
            return None
        return max(0, self.next_nonce - self.latest_chain_nonce - self.open_nonces)


# Maximum lag of the hot set that is measured, in rounds. A longer lag is reported as this value.
MAX_LAG_ROUNDS = 7


class HotSetLag(NamedTuple):
    """How far the hot set's stored score words lag behind the last accepted round.

    `rounds_behind` is the number of newest rounds of which a word is missing, at most
    `MAX_LAG_ROUNDS`. `words_left` is the number of words that the last round would change.
    """

    rounds_behind: int
    words_left: int


@dataclass(frozen=True, slots=True)
class ContractStatus:
    """The state of the oracle contract at one block; times are block times in unix seconds.

    `pushed_at` is the time of the block that accepted the last round. `as_of_lag_blocks` are the
    blocks from the last round's as-of block to the head. `kick_tokens` are the kickouts that the
    contract's rate limit still permits.
    """

    round: int
    pushed_at: int
    as_of_lag_blocks: int
    paused_until: int
    kicks_paused: bool
    kick_tokens: int
    # Lag of the hot set. It is None if no hot set is kept, or if its lag is unknown.
    hot_set_lag: HotSetLag | None = None


@dataclass(slots=True)
class OutboxStatistics:
    """The outbox metrics of `/metrics`; each mapping is keyed by the labels of its metric.

    The first seven fields count all finished nonces since the creation of the database. `outcomes`
    are by (kind, `success` | `reverted` | `superseded` | `foreign`), and the others are by kind of
    call, with fees in wei. `ages` are in seconds by (kind, state). `attempts` are counts by (kind,
    reason), and `kickouts` are counts by outcome on chain. `accounts` are by role (`transmitter`,
    `dispatcher`). `report_nodes` and `report_deviation` (in units of 0.0001 of QoS) describe the
    newest report. `rules_agree` is None if the contract was not read. `abandoned_statements`
    counts the statements that could still land but are not sent again.
    """

    outcomes: Tally[tuple[str, str]] = field(default_factory=Tally)
    gas: Tally[str] = field(default_factory=Tally)
    wei: Tally[str] = field(default_factory=Tally)
    to_mined: dict[str, BucketCounts] = field(default_factory=dict)
    to_final: dict[str, BucketCounts] = field(default_factory=dict)
    blocks: dict[str, BucketCounts] = field(default_factory=dict)
    bumps: dict[str, BucketCounts] = field(default_factory=dict)
    ages: Mapping[tuple[str, str], float] = field(default_factory=dict)
    attempts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    accounts: Mapping[str, AccountStatistics] = field(default_factory=dict)
    kickouts: Mapping[str, int] = field(default_factory=dict)
    contract: ContractStatus | None = None
    rules_agree: bool | None = None
    report_nodes: int | None = None
    report_deviation: int | None = None
    heartbeat_seconds: int | None = None
    abandoned_statements: int = 0

    def add_finished_nonce(self, kind: str, outcome: str, *, gas_used: int, cost_wei: int) -> None:
        """Count a finished nonce and its cost, including a rollup's data fee."""
        self.outcomes[kind, outcome] += 1
        self.gas[kind] += gas_used
        self.wei[kind] += cost_wei

    def add_mined_nonce(
        self, kind: str, *, seconds: int, final_seconds: int | None, blocks: int | None, bumps: int
    ) -> None:
        """Count the time from a nonce's allocation to its receipt, and its fee bumps.

        `seconds` and `blocks` end at the receipt, and `final_seconds` at finality. A value that
        the rows do not contain is None.
        """
        self.to_mined.setdefault(kind, BucketCounts(SECOND_BOUNDS)).add_value(seconds)
        if final_seconds is not None:
            self.to_final.setdefault(kind, BucketCounts(SECOND_BOUNDS)).add_value(final_seconds)
        if blocks is not None:
            self.blocks.setdefault(kind, BucketCounts(BLOCK_BOUNDS)).add_value(blocks)
        self.bumps.setdefault(kind, BucketCounts(BUMP_BOUNDS)).add_value(bumps)

    def copy_nonce_counters(self) -> "OutboxStatistics":
        """Return a copy that contains only the counts of finished nonces."""
        return OutboxStatistics(
            outcomes=Tally(self.outcomes),
            gas=Tally(self.gas),
            wei=Tally(self.wei),
            to_mined=_copy_bucket_counts(self.to_mined),
            to_final=_copy_bucket_counts(self.to_final),
            blocks=_copy_bucket_counts(self.blocks),
            bumps=_copy_bucket_counts(self.bumps),
        )


def _copy_bucket_counts(counts_by_kind: Mapping[str, BucketCounts]) -> dict[str, BucketCounts]:
    return {kind: bucket_counts.copy() for kind, bucket_counts in counts_by_kind.items()}
