"""The lines of `status` about how well the history is proven, and what limits the proof."""

from oracle.chain.source import ChainSource
from oracle.domain.coverage import IngestScope, VerificationLevel
from oracle.domain.health import Condition, HealthFinding
from oracle.indexer.audit.unproven_history import unproven_history_reason
from oracle.queries.text.human_numbers import format_blocks
from oracle.store.database import Store

Line = tuple[str, str]


def load_proof_status(
    store: Store, source: ChainSource, scope: IngestScope
) -> tuple[list[HealthFinding], list[Line]]:
    """Return findings about unproven history, and lines about what could be proven now."""
    findings, lines = _check_proof(store, source, scope)
    return findings, [*_format_witnesses(source), *lines]


def _format_witnesses(source: ChainSource) -> list[Line]:
    """Return a warning if there is only one provider, because it could forge the chain."""
    if len(set(source.get_providers().values())) > 1:
        return []
    count = len(source.get_providers())
    provider_text = "one endpoint" if count == 1 else f"one provider ({count} endpoints)"
    risk_text = f"there is only {provider_text}, so a forged chain would go unnoticed"
    return [("witness", f"unwitnessed: {risk_text}; add another provider to [chain] endpoints")]


def _check_proof(
    store: Store, source: ChainSource, scope: IngestScope
) -> tuple[list[HealthFinding], list[Line]]:
    with store.read_transaction() as uow:
        unproven = unproven_history_reason(source, uow, scope)
    if unproven is not None:
        return [HealthFinding(Condition.UNPROVEN, unproven)], []
    level = source.get_history_level()
    if level < VerificationLevel.BLOOMED:
        proof_text = "the headers cannot prove it yet, or [verify] does not require a proof"
        return [], [("proof", f"history is unproven: {proof_text}")]
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        final_block = -1 if cursor is None or cursor.final_number is None else cursor.final_number
        unreached_blocks = uow.coverage.count_blocks_below_level(scope.id, level, 0, final_block)
    proof_text = f"every block of history can be verified as {level.name.lower()}"
    if not unreached_blocks:
        return [], [("proof", proof_text)]
    unreached_text = (
        f"{format_blocks(unreached_blocks)} below the level that can be reached: {proof_text}; "
        "`run` rereads them"
    )
    return [HealthFinding(Condition.UNPROVEN, unreached_text)], []
