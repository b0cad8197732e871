"""Requests effects as the planners do: signs a statement once, and adds the intent separately."""

from dataclasses import dataclass, replace

from oracle.bindings.qos_roots import RootsContract
from oracle.chain.heads import Heads
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.sign_once import sign_once
from oracle.quorum.statements import build_statement_record
from oracle.signing.typed_data import ReportStatement
from oracle.store.outbox.records import (
    PENDING_STATES,
    PUSH,
    CallRequest,
    IntentState,
    SignedStatement,
)
from oracle.txmgr.context import StepResult
from tests.simulation.books import Books, Wished
from tests.simulation.goals import Goals
from tests.simulation.world import World

# The kind of a call that needs no signed statement, as a kickout does.
OTHER = "other"
# How long a statement is valid, in seconds.
_TTLS = (120, 300, 600)
_UNDER_HEAD = 2
# One time in so many, a contradicting statement is requested as well, which must not be signed.
_CONTRARY = 4


@dataclass(frozen=True, slots=True)
class Planner:
    """Requests the effects of the goals.

    An intent that ended without its effect is requested again with another key.
    """

    world: World
    books: Books
    goals: Goals

    def plan(self, context: QuorumContext, heads: Heads) -> StepResult | None:
        """Request the next effect.

        Return None if no effect is wanted, or if its statement must not be signed.
        """
        chosen = self._next(context, heads)
        if chosen is None:
            return None
        effect, kind, tries = chosen
        signed = self._signed(context, heads, effect) if kind == PUSH else None
        if kind == PUSH and signed is None:
            return None
        request = CallRequest(
            account=context.account_context.account,
            contract=context.account_context.sender_account.domain.contract,
            kind=kind,
            dedup_key=f"{kind}:{effect}:{tries}",
            calldata=effect,
            exclusive_key=PUSH if kind == PUSH else f"{kind}:{effect}",
        )
        if signed is not None:
            request = replace(
                request,
                round=signed.round,
                as_of_block=signed.as_of_block,
                as_of_hash=signed.as_of_hash,
                digest=signed.digest,
                deadline=signed.deadline,
            )
        with context.account_context.write_transaction() as uow:
            added = uow.outbox.intents.add(request, context.account_context.stamp)
        return StepResult("wanted", added, f"{kind} {effect}, try {tries}")

    def _next(self, context: QuorumContext, heads: Heads) -> tuple[str, str, int] | None:
        wished_by_effect = self.books.requests()
        now = heads.latest.time
        with context.account_context.store.read_transaction() as uow:
            under_way = uow.outbox.intents.list_in_states(
                context.account_context.account, PENDING_STATES
            )
        # If the open push can no longer land, the next push is planned, which then takes over its
        # nonce.
        pushes = [intent for intent in under_way if intent.request.kind == PUSH]
        late = [
            intent
            for intent in pushes
            if intent.state is IntentState.LIVE and (intent.request.deadline or 0) < now
        ]
        is_busy = len(late) < len(pushes)
        effect = None if is_busy else self.goals.next_push(wished_by_effect)
        if effect is None and late and not is_busy:
            # There is always another report, so the push after the last one takes over the nonce,
            # too.
            effect = self.goals.push_beyond(wished_by_effect)
        kind = PUSH
        if effect is None:
            effect = self.goals.next_other(wished_by_effect)
            kind = OTHER
        if effect is None:
            return None
        return effect, kind, wished_by_effect.get(effect, Wished("", 0, is_over=False)).tries

    def _signed(self, context: QuorumContext, heads: Heads, effect: str) -> SignedStatement | None:
        """Return a push's statement that is still valid, or sign a new statement.

        Occasionally request a contradicting one. Return None if the statement must not be signed.
        """
        dice, head = self.world.dice, heads.latest
        terms = (max(head.number - _UNDER_HEAD, 0), head.time + dice.choice(_TTLS))
        statement = _build_statement(effect, *terms)
        record = build_statement_record(context, statement)
        with context.account_context.store.read_transaction() as uow:
            live = uow.statements.find_live(record)
        if live is not None and live.deadline >= head.time:
            terms = (live.as_of_block, live.deadline)
            statement = _build_statement(effect, *terms)
            record = build_statement_record(context, statement)
        publisher = context.account_context.sender_account
        standing = RootsContract(publisher.pool_view, publisher.domain.contract).fetch_status()
        signed = sign_once(context, statement, record, standing)
        if signed is not None and dice.randrange(_CONTRARY) == 0:
            contrary = _build_statement(effect, terms[0], terms[1] + 1)
            sign_once(context, contrary, build_statement_record(context, contrary), standing)
        return signed


def _build_statement(effect: str, as_of: int, deadline: int) -> ReportStatement:
    """Return the statement of a push as of a block, valid until `deadline`."""
    number = int(effect, 16)
    return ReportStatement(
        config=ZERO_HASH,
        round=number,
        prev=ZERO_HASH,
        as_of=as_of,
        as_of_hash=ZERO_HASH,
        deadline=deadline,
        root=Hash(f"0x{number:064x}"),
    )
