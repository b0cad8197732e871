"""Kickouts (decision 10): proposed on final evidence, executed when still due, cancelled when not.

The contract checks all of it again; here nothing is proposed that the evidence does not show.
"""

from dataclasses import replace

from oracle.chain.heads import Heads
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address
from oracle.domain.rounds import Kick, KickState
from oracle.domain.verification import Level
from oracle.publisher.contract import Standing, cancel_call, execute_call, propose_call
from oracle.publisher.preflight import Outcome, preflight
from oracle.publisher.publisher import Publisher
from oracle.publisher.typed_data import KickStatement
from oracle.services.accusing import Look, due_spells, is_founded, looks_at, proof_behind
from oracle.services.desk import Desk, Step
from oracle.services.evidence_files import export
from oracle.services.proving import Proof
from oracle.services.readying import LANE_SUBJECT
from oracle.services.withdrawing import alarm
from oracle.store.outbox_rows import IntentKind, SignedStatement, Wish
from oracle.store.store import Unit

# Kickouts wait for nobody, and let nobody wait: their lane is behind the pushes'.
_PRIORITY = 200
_SIGNATURE_BYTES = 65


def plan_kick(desk: Desk, heads: Heads) -> Step | None:
    """Plan the next call about a kickout: cancel, execute or propose; None: nothing to plan.

    History plans nothing: a spell that is open there may have closed since. Nor does a chain that
    stands still: nobody is to be blamed for what did not happen meanwhile (chain.md 3.2).
    """
    if heads.stalled or desk.is_stopped():
        return None
    with desk.store.reading() as unit:
        if not desk.is_at_head(unit, heads):
            return None
        open_spells = {spell.node for spell in due_spells(unit, desk.rules)}
        live = unit.rounds.live_kicks()
        founded = {kick.index for kick in live if is_founded(unit, desk.rules, kick)}
        looks = _looks(desk, unit) if open_spells else []
    proposals = [look for look in looks if look.obstacle is None]
    if live or proposals:
        standing = desk.publisher.contract.standing()
        for kick in live:
            is_due = kick.node in open_spells and kick.index in founded
            step = execute(desk, kick, standing) if is_due else _cancel(desk, kick, founded)
            if step is not None:
                return step
        for look in proposals:
            step = propose(desk, look, standing)
            if step is not None:
                return step
    return _prove_next(desk, looks)


def propose(desk: Desk, look: Look, standing: Standing) -> Step | None:
    """Sign and plan the proposal of a look that nothing stands against; None: not now.

    Not now: a push or another call about this lane is on its way, or this round's proposal may
    still land.
    """
    publisher, subject, evidence = desk.publisher, f"{LANE_SUBJECT}{look.index}", look.evidence
    if look.index is None or evidence is None:
        return None
    deadline = standing.block.time + desk.settings.ttl_seconds
    statement = KickStatement(standing.head.round, look.index, evidence.hash, deadline)
    digest = statement.digest(publisher.domain)
    signed = SignedStatement(
        chain_id=publisher.domain.chain_id,
        contract=publisher.domain.contract,
        signer=publisher.signer.address,
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
    is_expired = earlier is not None and standing.block.time > earlier.expires_at
    if is_open or (earlier is not None and not is_expired):
        return None
    # The file stands before anything that names its hash.
    export(desk.evidence_folder, evidence)
    signature = publisher.signer.sign_statement(statement, publisher.domain)
    signed = replace(signed, signature=signature)
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
        as_of_block=look.spell.opened_at.block,
    )
    with desk.writing() as unit:
        if earlier is not None:
            unit.outbox.signatures.bury(earlier.digest, "expired", desk.stamp)
        unit.outbox.signatures.add(signed, desk.stamp)
        intent_id = unit.outbox.intents.add(wish, desk.stamp)
    return Step("kickout proposal planned", intent_id, f"{look.node} {evidence.hash}")


def rehearse(publisher: Publisher, look: Look) -> str:
    """Say what the contract would make of a proposal, or of a live kickout's execution, now.

    Nothing is signed: a proposal is tried with an empty signature, which the contract looks at
    last, so that this refusal alone means that all else is in order.
    """
    standing = publisher.contract.standing()
    index, sender = look.index or 0, publisher.sender if publisher.has_payer else ZERO_ADDRESS
    if look.kick is not None and look.kick.state is KickState.LIVE:
        calldata = execute_call(index)
    else:
        evidence = ZERO_HASH if look.evidence is None else look.evidence.hash
        unsigned = KickStatement(standing.head.round, index, evidence, standing.block.time + 600)
        calldata = propose_call(unsigned, bytes(_SIGNATURE_BYTES * standing.head.quorum))
    verdict = preflight(publisher.lines, sender, publisher.contract.address, calldata)
    is_unsigned = verdict.refusal is not None and verdict.refusal.name == "BadSignature"
    return "accepted" if verdict.outcome is Outcome.OK or is_unsigned else verdict.reason


def execute(desk: Desk, kick: Kick, standing: Standing) -> Step | None:
    """Plan the execution of a live kickout; None: its veto or its rounds are not over, or no."""
    ripe = kick.round + standing.limits.kick_rounds
    if standing.block.time < kick.ready_at or standing.head.round < ripe:
        return None
    proof = _proof_of(desk, kick)
    if proof is not None and proof.reason is not None:
        return _prove(desk, kick.node, proof)
    return _plan_call(desk, kick, IntentKind.EXECUTE_KICK, execute_call(kick.index))


def _looks(desk: Desk, unit: Unit) -> list[Look]:
    level = Level.PROVEN if desk.prover is None else desk.prover.level()
    return looks_at(unit, desk.rules, desk.settings.kick_below, level)


def _proof_of(desk: Desk, kick: Kick) -> Proof | None:
    """Look once more at the blocks behind a kickout, before it is executed."""
    level = Level.PROVEN if desk.prover is None else desk.prover.level()
    with desk.store.reading() as unit:
        spells = [spell for spell in due_spells(unit, desk.rules) if spell.node == kick.node]
        return proof_behind(unit, desk.rules, spells[0], level) if spells else None


def _prove_next(desk: Desk, looks: list[Look]) -> Step | None:
    """Verify some of the blocks that a kickout waits for; None: none does, or none could be."""
    for look in looks:
        step = None if look.proof is None else _prove(desk, look.node, look.proof)
        if step is not None:
            return step
    return None


def _prove(desk: Desk, node: Address, proof: Proof) -> Step | None:
    if desk.prover is None or proof.obstacle is not None or not proof.unproven:
        return None
    reached = desk.prover.prove(proof)
    left = len(proof.unproven) - reached
    return (
        Step("kickout evidence verified", None, f"{node}: {left} blocks left") if reached else None
    )


def _cancel(desk: Desk, kick: Kick, founded: set[int]) -> Step | None:
    """The spell is closed: cancel, where the contract lets us (its lane says so too).

    Or the evidence is no longer the chain's: then a human hears of it at once, who may veto it,
    and ours waits until the contract lets us.
    """
    kind = IntentKind.CANCEL_KICK
    if kick.index in founded:
        return _plan_call(desk, kick, kind, cancel_call(kick.index, "no longer due"))
    call = cancel_call(kick.index, "evidence left the chain")
    step = _plan_call(desk, kick, kind, call, may_wait=True)
    if step is not None:
        alarm(f"{LANE_SUBJECT}{kick.index}", f"the evidence against {kick.node} left the chain")
    return step


def _plan_call(
    desk: Desk, kick: Kick, kind: IntentKind, calldata: str, *, may_wait: bool = False
) -> Step | None:
    subject, publisher = f"{LANE_SUBJECT}{kick.index}", desk.publisher
    with desk.store.reading() as unit:
        if _is_open(desk, unit, subject):
            return None
        tries = unit.outbox.intents.tries(desk.account, kind, subject, kick.round)
    sender, contract = desk.account.address, publisher.contract.address
    if not may_wait:
        verdict = preflight(publisher.lines, sender, contract, calldata)
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
        as_of_block=kick.proposed_at.block if kind is IntentKind.EXECUTE_KICK else None,
    )
    with desk.writing() as unit:
        intent_id = unit.outbox.intents.add(wish, desk.stamp)
    return Step(f"{kind} planned", intent_id, kick.node)


def _is_open(desk: Desk, unit: Unit, subject: str) -> bool:
    """Tell whether a call about this lane is on its way, not yet final."""
    unfinished = unit.outbox.intents.unfinished(desk.account)
    return any(intent.wish.subject == subject for intent in unfinished)
