"""What becomes of a call that does not work now (publishing.md 3.7), signatures before all.

A push that is refused for its signatures gets others, once: a signer may have been removed, or
the quorum changed, since they were gathered.
"""

import re
from dataclasses import replace

from oracle.chain.heads import Heads
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH
from oracle.publisher.contract import Standing, push_call
from oracle.publisher.preflight import Outcome, Verdict
from oracle.services.deferring import not_now, wait
from oracle.services.desk import Desk, Step
from oracle.services.quorum.collecting import signatures
from oracle.services.quorum.records import REPORT, report_record, statement_of
from oracle.services.sending.budgets import role
from oracle.services.sending.calls import gas_of_block
from oracle.store.outbox_rows import Intent, IntentKind, IntentState, SignedStatement
from oracle.store.store import Unit
from oracle.telemetry.sending_metrics import TOO_BIG

_OF_SIGNATURES = frozenset({"BadSignature", "BadSignatureLength"})
_AGAIN = ":signatures"
# What clients say of a call that takes more gas than a block has.
_TOO_MUCH_GAS = re.compile(
    r"out ?of ?gas|gas required exceeds|exceeds block gas|gas too high", re.IGNORECASE
)


def refused(desk: Desk, intent: Intent, verdict: Verdict, heads: Heads) -> Step | None:
    """Follow the table of refusals; None: it waits already, for the same reason.

    Raises:
        TransientError: no endpoint says who the signers are.
    """
    if verdict.outcome is Outcome.UNKNOWN and _TOO_MUCH_GAS.search(verdict.reason):
        TOO_BIG.labels(role(desk)).set(1)
        text = f"a block has {gas_of_block(desk)} gas: {verdict.reason}"
        return wait(desk, intent, heads, ("too_big", text))
    name = None if verdict.refusal is None else verdict.refusal.name
    is_push = intent.wish.kind is IntentKind.PUSH
    if not is_push or name not in _OF_SIGNATURES or intent.wish.dedup_key.endswith(_AGAIN):
        return not_now(desk, intent, verdict, heads)
    return _collect_again(desk, intent, verdict, heads)


def statement_behind(unit: Unit, push: Intent, standing: Standing) -> SignedStatement:
    """Return what the push says, as it was signed or told; else as its own row has it."""
    wish = push.wish
    about = (wish.contract, REPORT, wish.round or 0)
    said = [*unit.outbox.signatures.of_round(*about), *unit.outbox.peers.of(*about)]
    known = next((one for one in said if one.digest == wish.digest), None)
    if known is not None:
        return known
    return SignedStatement(
        chain_id=wish.account.chain_id,
        contract=wish.contract,
        signer=ZERO_ADDRESS,
        kind=REPORT,
        round=wish.round or 0,
        subject="",
        digest=wish.digest or ZERO_HASH,
        signature=b"",
        expires_at=wish.deadline or 0,
        # Not known: not held against it.
        prev_digest=standing.last_report,
        as_of_block=wish.as_of_block,
        as_of_hash=wish.as_of_hash,
    )


def _collect_again(desk: Desk, intent: Intent, verdict: Verdict, heads: Heads) -> Step | None:
    wish = intent.wish
    standing = desk.publisher.contract.standing()
    with desk.store.reading() as unit:
        stored = None if wish.period is None else unit.reports.at(wish.period)
    if stored is None:
        return not_now(desk, intent, verdict, heads)
    statement = statement_of(stored.report, standing)
    record = report_record(desk, statement)
    if record.digest != wish.digest:
        return not_now(desk, intent, verdict, heads)
    gathered = signatures(desk, record, standing)
    if gathered is None:
        # Others may still sign; at its deadline it ends by itself.
        few = "fewer of the contract's signers than its quorum have signed it"
        return wait(desk, intent, heads, ("BadSignature", few))
    calldata = push_call(statement, gathered)
    if calldata == wish.calldata:
        return not_now(desk, intent, verdict, heads)
    again = replace(wish, calldata=calldata, dedup_key=wish.dedup_key + _AGAIN, not_before=None)
    with desk.writing() as unit:
        intents = unit.outbox.intents
        intents.end(intent, IntentState.SUPERSEDED, verdict.reason, desk.stamp)
        added = intents.add(again, desk.stamp)
    return Step("push signed by others", added, f"instead of intent {intent.id}: {verdict.reason}")
