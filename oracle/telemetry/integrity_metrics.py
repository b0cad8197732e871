"""Metrics of coverage, audits and data comparisons (docs/reference/metrics.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client import Counter, Gauge

from oracle.domain.coverage import VerificationLevel
from oracle.telemetry.metrics import REGISTRY

COVERED = Gauge(
    "oracle_covered_blocks",
    "Blocks read, by verification level reached.",
    ["level"],
    registry=REGISTRY,
)
AUDITED = Gauge(
    "oracle_audited_blocks", "Blocks that were audited with a second endpoint.", registry=REGISTRY
)
UNCOVERED = Gauge(
    "oracle_uncovered_blocks",
    "Blocks up to the folded block that were not read for the configured contracts and events.",
    registry=REGISTRY,
)
SUSPECT = Gauge(
    "oracle_suspect_blocks",
    "Blocks that came from an endpoint that was proven wrong, and that no other endpoint has "
    "checked yet.",
    registry=REGISTRY,
)
DEAD_LETTERS = Gauge(
    "oracle_dead_letters",
    "Logs and calls of known kinds that could not be decoded.",
    registry=REGISTRY,
)
AUDIT_POSSIBLE = Gauge(
    "oracle_audit_possible",
    "1 if a second provider can audit final blocks (with a single provider: a second endpoint), "
    "else 0.",
    registry=REGISTRY,
)
AUDITS = Counter(
    "oracle_audits_total",
    "Audited windows, by result: equal, accepted (an operator has accepted the differences), "
    "repaired (the first endpoint was wrong), denied (the second endpoint was wrong), unproven "
    "(neither could be proven), unanswered.",
    ["result"],
    registry=REGISTRY,
)
for _result in ("equal", "accepted", "repaired", "denied", "unproven", "unanswered"):
    # Create each counter at zero, so that alerts see its first increase.
    AUDITS.labels(_result)
COUNTER_DIFFERENCE = Gauge(
    "oracle_contract_count_difference",
    "A contract's counter minus the indexed count, at one block: members, rounds.",
    ["counter"],
    registry=REGISTRY,
)
COUNTERS_COMPARED = Counter(
    "oracle_counters_compared_total",
    "Comparisons with the contracts' counters, one per hour at the head.",
    registry=REGISTRY,
)
STATE_DIFFERENCE = Gauge(
    "oracle_state_differing_rows",
    "Rows of the newest state sample that differ from a fold of the stored logs.",
    registry=REGISTRY,
)
STATE_SAMPLES = Counter(
    "oracle_state_samples_total",
    "State samples compared with a fold of the stored logs.",
    registry=REGISTRY,
)


@dataclass(frozen=True, slots=True)
class IntegrityStatistics:
    """Statistics of data integrity, computed from the database."""

    block_count_by_level: Mapping[VerificationLevel, int] = field(default_factory=dict)
    audited_blocks: int = 0
    uncovered_blocks: int = 0
    dead_letters: int = 0
    suspect_blocks: int = 0


def publish_statistics(statistics: IntegrityStatistics) -> None:
    """Set the integrity metrics from these statistics."""
    # A level without blocks is exported as 0.
    for level in VerificationLevel:
        COVERED.labels(level.name.lower()).set(statistics.block_count_by_level.get(level, 0))
    AUDITED.set(statistics.audited_blocks)
    UNCOVERED.set(statistics.uncovered_blocks)
    DEAD_LETTERS.set(statistics.dead_letters)
    SUSPECT.set(statistics.suspect_blocks)
