"""Asks the other reporters for their statements, and keeps those of the contract's signers."""

import structlog

from oracle.domain.ids import Address, Hash
from oracle.publisher.board import place_of
from oracle.publisher.contract import Standing
from oracle.publisher.membership import signers_of
from oracle.publisher.statement_wire import Told, ToldReport
from oracle.services.desk import Desk
from oracle.services.quorum.records import KICK, REPORT, kick_subject
from oracle.store.outbox_rows import SignedStatement


def ask_peers(desk: Desk, about: SignedStatement, standing: Standing) -> int:
    """Ask what others signed of this round and subject; return how much of it was new.

    Kept is what is genuine, about the same contract, round and subject, by one who is a signer
    of the contract at this moment; whatever it says.

    Raises:
        TransientError: no endpoint says who the signers are.
        FatalError: another process has taken over the lease.
    """
    if desk.peers is None:
        return 0
    place = _place(desk, about)
    heard = [
        (host, told)
        for host, told in desk.peers.ask(f"/v1/{place}")
        if place_of(told) == place and _is_here(told, about)
    ]
    if not heard:
        return 0
    signers = signers_of(desk.publisher.lines, about.contract, standing.block)
    statements = []
    for host, told in heard:
        if told.signer in signers:
            statements.append((host, _statement(told, about)))
        else:
            structlog.get_logger().warning("stranger_signed", host=host, signer=told.signer)
    return _kept(desk, statements)


def _kept(desk: Desk, statements: list[tuple[str, SignedStatement]]) -> int:
    with desk.store.reading() as unit:
        new = [
            (host, one)
            for host, one in statements
            if all(
                (known.signer, known.digest) != (one.signer, one.digest)
                for known in unit.outbox.peers.of(one.contract, one.kind, one.round, one.subject)
            )
        ]
    if not new:
        return 0
    with desk.writing() as unit:
        return sum(unit.outbox.peers.add(one, host, desk.stamp) for host, one in new)


def _place(desk: Desk, about: SignedStatement) -> str:
    if about.kind == REPORT:
        return f"report/{about.round}"
    with desk.store.reading() as unit:
        return f"kick/{unit.rounds.node_at(int(about.subject.removeprefix(kick_subject(''))))}"


def _is_here(told: Told, about: SignedStatement) -> bool:
    """Tell whether it is about our contract, round and subject, and not our own word."""
    subject = "" if isinstance(told, ToldReport) else kick_subject(told.index)
    here = (told.chain_id, told.contract, told.round, subject)
    is_same = here == (about.chain_id, about.contract, about.round, about.subject)
    return is_same and told.signer != about.signer


def _statement(told: Told, about: SignedStatement) -> SignedStatement:
    is_report = isinstance(told, ToldReport)
    return SignedStatement(
        chain_id=told.chain_id,
        contract=Address(told.contract),
        signer=Address(told.signer),
        kind=REPORT if is_report else KICK,
        round=told.round,
        subject=about.subject,
        digest=Hash(told.digest),
        signature=bytes.fromhex(told.signature[2:]),
        expires_at=told.deadline,
        prev_digest=Hash(told.prev) if isinstance(told, ToldReport) else None,
        as_of_block=told.as_of if isinstance(told, ToldReport) else None,
        as_of_hash=Hash(told.as_of_hash) if isinstance(told, ToldReport) else None,
    )
