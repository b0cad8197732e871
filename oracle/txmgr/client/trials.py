"""Counts what calls would do that are tried before anything is signed for them."""

from oracle.bindings.contract_errors import Action
from oracle.store.outbox.records import IntentKind
from oracle.telemetry.outbox_metrics import SIMULATIONS
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult


def count(kind: IntentKind, verdict: PreflightResult) -> None:
    """Count one trial: `ok`, `later` and `rejected` by the contract, or `unknown`."""
    SIMULATIONS.labels(kind.value, _result(verdict)).inc()


def _result(verdict: PreflightResult) -> str:
    if verdict.outcome is PreflightOutcome.OK:
        return "ok"
    if verdict.outcome is PreflightOutcome.UNKNOWN or verdict.refusal is None:
        return "unknown"
    return "later" if verdict.refusal.action is Action.WAIT else "rejected"
