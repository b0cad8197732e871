"""Kickouts (decision 10): proposed on final evidence, executed when still due, cancelled when not.

The contract checks all of it again; here nothing is proposed that the evidence does not show.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from oracle.chain.heads import Heads
from oracle.domain.evidence import Evidence, evidence_of
from oracle.domain.ids import Address
from oracle.domain.lanes import LOWEST_SCORE, NEVER_REPORTED
from oracle.domain.ledger import KickoutDue
from oracle.domain.nodes import Membership
from oracle.domain.rounds import Kick, KickState
from oracle.publisher.contract import Standing, cancel_call, execute_call, propose_call
from oracle.publisher.preflight import Outcome, preflight
from oracle.publisher.typed_data import KickStatement
from oracle.services.desk import Desk, Step
from oracle.services.evidence_files import export
from oracle.store.outbox_rows import IntentKind, SignedStatement, Wish
from oracle.store.store import Unit

# Kickouts wait for nobody, and let nobody wait: their lane is behind the pushes'.
_PRIORITY = 200
# A pool of scores and what may have come on top of it in the block where the spell opened.
_SLACK = 200


@dataclass(frozen=True, slots=True)
class Due:
    """A node whose kickout can be proposed now, and why."""

    node: Address
    index: int
    evidence: Evidence


def plan_kick(desk: Desk, heads: Heads) -> Step | None:
    """Plan the next call about a kickout: cancel, execute or propose; None: nothing to plan."""
    with desk.store.reading() as unit:
        open_spells = {spell.node for spell in unit.kickouts.open()}
        live = [kick for kick in unit.rounds.kicks() if kick.state is KickState.LIVE]
        proposals = list(dues(desk, unit, heads)) if open_spells else []
    if not live and not proposals:
        return None
    standing = desk.publisher.contract.standing()
    for kick in live:
        step = _execute(desk, kick, standing) if kick.node in open_spells else _cancel(desk, kick)
        if step is not None:
            return step
    for due in proposals:
        step = _propose(desk, due, standing, heads)
        if step is not None:
            return step
    return None


def dues(desk: Desk, unit: Unit, heads: Heads) -> Iterator[Due]:
    """Yield the kickouts that can be proposed, oldest spell first.

    The spell's opening is final, it is still open at the head, the node is a member with a lane
    under the kickout line on chain, and no kickout of it is live or was cancelled before.
    """
    cursor, rounds = unit.cursor.get(), unit.rounds.load()
    final = -1 if cursor is None else min(cursor.number, heads.final.number)
    line = desk.settings.kick_below + LOWEST_SCORE
    for spell in unit.kickouts.open():
        if spell.opened_at.block > final:
            continue
        node = unit.nodes.named([spell.node]).get(spell.node)
        if node is None or node.membership is not Membership.MEMBER:
            continue
        lane, index = rounds.lane_of_node(spell.node), rounds.index_by_node.get(spell.node)
        if index is None or lane == NEVER_REPORTED or lane >= line:
            continue
        due = Due(spell.node, index, evidence_at(desk, unit, spell))
        earlier = rounds.kicks.get(index)
        # A kickout that was vetoed is not tried again on the same evidence.
        if earlier is None or not _is_settled(earlier, due):
            yield due


def _is_settled(earlier: Kick, due: Due) -> bool:
    """Tell whether the same kickout waits for its execution, or was cancelled."""
    return earlier.state is KickState.LIVE or earlier.evidence == due.evidence.hash


def evidence_at(desk: Desk, unit: Unit, spell: KickoutDue) -> Evidence:
    """Write the evidence from the pool as it stood where the spell opened."""
    size = desk.rules.pool_size
    entries = unit.scores.of_node_at(spell.node, spell.opened_at.block, size + _SLACK)
    before = [entry for entry in entries if entry.at <= spell.opened_at]
    return evidence_of(spell, before[-size:], desk.rules)


def _propose(desk: Desk, due: Due, standing: Standing, heads: Heads) -> Step | None:
    publisher, subject = desk.publisher, f"ix={due.index}"
    deadline = standing.block.time + desk.settings.ttl_seconds
    statement = KickStatement(standing.head.round, due.index, due.evidence.hash, deadline)
    digest = statement.digest(publisher.domain)
    signed = SignedStatement(
        chain_id=publisher.domain.chain_id,
        contract=publisher.domain.contract,
        signer=publisher.keys.signer.address,
        kind="kick",
        round=statement.round,
        subject=subject,
        digest=digest,
        signature=b"",
        expires_at=deadline,
    )
    with desk.store.reading() as unit:
        earlier = unit.outbox.signatures.live(signed)
        # A push that lands first would take the round away from under the proposal.
        is_pushing = unit.outbox.intents.push_on_its_way(desk.account) is not None
        is_open = is_pushing or _is_open(desk, unit, subject)
    is_expired = earlier is not None and heads.latest.time > earlier.expires_at
    if is_open or (earlier is not None and not is_expired):
        return None
    # The file stands before anything that names its hash.
    export(desk.evidence_folder, due.evidence)
    signed = replace(signed, signature=publisher.keys.signer.sign_digest(digest))
    wish = Wish(
        account=desk.account,
        contract=publisher.domain.contract,
        kind=IntentKind.PROPOSE_KICK,
        dedup_key=f"propose_kick:{subject}:round={statement.round}:{digest}",
        calldata=propose_call(statement, signed.signature),
        subject=subject,
        round=statement.round,
        digest=digest,
        priority=_PRIORITY,
        deadline=deadline,
    )
    with desk.writing() as unit:
        if earlier is not None:
            unit.outbox.signatures.bury(earlier.digest, "expired", desk.stamp)
        unit.outbox.signatures.add(signed, desk.stamp)
        intent_id = unit.outbox.intents.add(wish, desk.stamp)
    return Step("kickout proposal planned", intent_id, f"{due.node} {due.evidence.hash}")


def _execute(desk: Desk, kick: Kick, standing: Standing) -> Step | None:
    ripe = kick.round + standing.limits.kick_rounds
    if standing.block.time < kick.ready_at or standing.head.round < ripe:
        return None
    return _plan_call(desk, kick, IntentKind.EXECUTE_KICK, execute_call(kick.index))


def _cancel(desk: Desk, kick: Kick) -> Step | None:
    """The spell is closed: cancel, where the contract lets us (its lane says so too)."""
    return _plan_call(desk, kick, IntentKind.CANCEL_KICK, cancel_call(kick.index, "no longer due"))


def _plan_call(desk: Desk, kick: Kick, kind: IntentKind, calldata: str) -> Step | None:
    subject, publisher = f"ix={kick.index}", desk.publisher
    with desk.store.reading() as unit:
        if _is_open(desk, unit, subject):
            return None
        tries = unit.outbox.intents.tries(desk.account, kind, subject, kick.round)
    verdict = preflight(
        publisher.lines, desk.account.address, publisher.contract.address, calldata
    )
    if verdict.outcome is not Outcome.OK:
        return None
    wish = Wish(
        account=desk.account,
        contract=publisher.domain.contract,
        kind=kind,
        dedup_key=f"{kind}:{subject}:round={kick.round}:try={tries + 1}",
        calldata=calldata,
        subject=subject,
        round=kick.round,
        priority=_PRIORITY,
    )
    with desk.writing() as unit:
        intent_id = unit.outbox.intents.add(wish, desk.stamp)
    return Step(f"{kind} planned", intent_id, kick.node)


def _is_open(desk: Desk, unit: Unit, subject: str) -> bool:
    """Tell whether a call about this lane is on its way, not yet final."""
    unfinished = unit.outbox.intents.unfinished(desk.account)
    return any(intent.wish.subject == subject for intent in unfinished)
