"""Every line of the log has a name that can be searched for, and stands in this list."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEVELS = {"debug", "info", "warning", "error", "critical"}
# By level. Whoever logs something new adds its name here, and says what to do in the docs.
EVENTS = {
    "critical": {
        "unknown_signature_on_chain",
    },
    "error": {
        "account_nonce_ahead",
        "calibration_lost",
        "disagreement",
        "endpoint_proven_wrong",
        "endpoint_quarantined",
        "equivocation",
        "foreign_nonce",
        "halted",
        "kickout_needs_review",
        "report_held",
        "statement_given_up",
        "transaction_missing_effect",
        "unknown_signature_from_peer",
    },
    "info": {
        "block_read_by_transaction",
        "endpoint_recovered",
        "reporting_as",
        "standby",
        "started",
        "step_completed",
        "step_recovered",
        "stopped",
    },
    "warning": {
        "conflicting_statement_refused",
        "endpoint_contradicted",
        "endpoint_leaves_logs_out",
        "endpoint_outvoted",
        "endpoint_released",
        "endpoint_replaced",
        "endpoint_slow",
        "finalized_tag_went_back",
        "holder_gone",
        "lease_not_released",
        "lease_renewal_failed",
        "log_times_differ",
        "proposal_not_decoded",
        "report_waiting",
        "statement_from_unknown_signer",
        "step_failed",
        "waiting_for_endpoint",
        "websocket_ended",
    },
}


def logged() -> Iterator[tuple[str, str]]:
    """Yield (level, event) of each call of a logger in the product; `Repeating` only warns."""
    for path in sorted((ROOT / "oracle").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            made = ast.unparse(node.func)
            level = made.removeprefix("structlog.get_logger().")
            if made == "Repeating":
                yield from (("warning", event) for event in _texts(node, tree))
            elif level in LEVELS:
                yield from ((level, event) for event in _texts(node, tree))


def _texts(call: ast.Call, tree: ast.Module) -> Iterator[str]:
    """Yield what is named in place, or by whoever calls the function that logs it."""
    event = call.args[0]
    if isinstance(event, ast.Constant):
        yield str(event.value)
        return
    (around,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and call in ast.walk(node)
    ]
    place = [one.arg for one in around.args.args].index(ast.unparse(event))
    callers = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == around.name
    ]
    assert callers, f"nobody calls {around.name}"
    for caller in callers:
        named = caller.args[place]
        assert isinstance(named, ast.Constant), f"{around.name}, line {caller.lineno}"
        yield str(named.value)


def test_what_is_logged_is_what_is_listed():
    found: dict[str, set[str]] = {}
    for level, event in logged():
        found.setdefault(level, set()).add(event)
    assert found == EVENTS


def test_an_event_is_named_in_small_letters_and_has_one_level():
    named = [event for events in EVENTS.values() for event in events]
    assert [event for event in named if not re.fullmatch(r"[a-z]+(_[a-z]+)*", event)] == []
    assert len(named) == len(set(named))
