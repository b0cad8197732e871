"""Metrics of agreement and disagreement between reporters."""

from collections.abc import Iterable

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

REFUSED = Counter(
    "oracle_quorum_statements_refused_total",
    "Statements not signed because an earlier statement of the same round may still land.",
    registry=REGISTRY,
)
DISAGREEMENT = Counter(
    "oracle_quorum_disagreements_total",
    "Statements by another signer that could land and differ from this reporter's.",
    ["signer"],
    registry=REGISTRY,
)
EQUIVOCATION = Counter(
    "oracle_quorum_equivocations_total",
    "Times a signer signed two statements for one round that could both land.",
    ["signer"],
    registry=REGISTRY,
)
SIGNED_ELSEWHERE = Counter(
    "oracle_quorum_unknown_signatures_total",
    "Accepted rounds with a signature of this reporter's key that is not in its database.",
    registry=REGISTRY,
)
SIGNATURES = Gauge(
    "oracle_quorum_signatures_collected",
    "1 for each signer whose signature of this reporter's newest statement was collected, else 0.",
    ["signer"],
    registry=REGISTRY,
)
PEER_ANSWERS = Counter(
    "oracle_quorum_peer_responses_total",
    "Responses of other reporters, by host and result: good, none, bad (malformed), forged.",
    ["host", "result"],
    registry=REGISTRY,
)


def init_signer_metrics(signers: Iterable[str]) -> None:
    """Start the metrics of each signer at zero, so that alerts see the first increase."""
    for signer in signers:
        DISAGREEMENT.labels(signer)
        EQUIVOCATION.labels(signer)


HELD = Gauge(
    "oracle_report_held",
    "Reports that would change too much at once; they wait for `report release`.",
    registry=REGISTRY,
)
DISPUTED = Gauge(
    "oracle_report_disputed",
    "1 while a report is held because other signers signed differently, so that no quorum can "
    "be reached.",
    registry=REGISTRY,
)
