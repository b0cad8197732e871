"""Metrics of several reporters: agreement and disagreement between them."""

from collections.abc import Iterable

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

REFUSED = Counter(
    "oracle_quorum_statements_refused_total",
    "Statements that were not signed, because an earlier one of their round may still land.",
    ["kind"],
    registry=REGISTRY,
)
for _kind in ("report", "kick"):
    # Initialise to zero, so that alerts see the first increase.
    REFUSED.labels(_kind)
DISAGREEMENT = Counter(
    "oracle_quorum_disagreements_total",
    "Statements of other signers that could land and say something else than ours.",
    ["signer"],
    registry=REGISTRY,
)
EQUIVOCATION = Counter(
    "oracle_quorum_equivocations_total",
    "Times that a signer was seen with two statements for one round that could both land.",
    ["signer"],
    registry=REGISTRY,
)
SIGNED_ELSEWHERE = Counter(
    "oracle_quorum_unknown_signatures_total",
    "Accepted rounds and proposed kickouts with a signature of our key over what this"
    " database never signed.",
    registry=REGISTRY,
)
SIGNATURES = Gauge(
    "oracle_quorum_signatures_collected",
    "1 for each signer whose signature of our newest statement is here, else 0.",
    ["signer"],
    registry=REGISTRY,
)
PEER_ANSWERS = Counter(
    "oracle_quorum_peer_responses_total",
    "Answers of other reporters, by host: good, none, bad (not as agreed), forged.",
    ["host", "result"],
    registry=REGISTRY,
)


def init_signer_metrics(signers: Iterable[str]) -> None:
    """Initialise the metrics of each signer to zero, so that alerts see the first increase."""
    for signer in signers:
        DISAGREEMENT.labels(signer)
        EQUIVOCATION.labels(signer)


HELD = Gauge(
    "oracle_report_held",
    "Reports that would change too much at once and wait for `report release`.",
    registry=REGISTRY,
)
FALLS_WAITING = Gauge(
    "oracle_report_pending_score_drops",
    "Lanes of the newest report that would fall and are left for later rounds: the contract takes"
    " no more at once.",
    registry=REGISTRY,
)
DISPUTED = Gauge(
    "oracle_report_disputed",
    "1 while a report is held because others signed otherwise, so that no quorum can be had.",
    registry=REGISTRY,
)
