"""Counts what calls would do that are tried before anything is signed for them."""

from oracle.publisher.preflight import Outcome, Verdict
from oracle.publisher.refusals import Action
from oracle.store.outbox_rows import IntentKind
from oracle.telemetry.outbox_metrics import SIMULATIONS


def count(kind: IntentKind, verdict: Verdict) -> None:
    """Count one trial: `ok`, `later` and `rejected` by the contract, or `unknown`."""
    SIMULATIONS.labels(kind.value, _result(verdict)).inc()


def _result(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.OK:
        return "ok"
    if verdict.outcome is Outcome.UNKNOWN or verdict.refusal is None:
        return "unknown"
    return "later" if verdict.refusal.action is Action.WAIT else "rejected"
