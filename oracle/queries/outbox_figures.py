"""Counts the outcomes of everything that was sent, for `/metrics`.

Nonces below the lowest open one never change again: their outcomes are counted once and kept, the
others are counted again each time. The cost of a count so depends on the number of open nonces,
and a restart counts everything again. See docs/explanation/daemon.md#metrics.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product

import structlog

from oracle.chain.heads import Heads
from oracle.dispatch.contest_settlement import SETTLE_CONTEST
from oracle.dispatch.dispatch_calls import (
    DROP_TASK,
    QUEUE_TASK,
    REQUEST_DOWNLOAD,
    START_GROUP,
    START_TASK,
)
from oracle.dispatch.probe_wants import END_PROBE, PROBE
from oracle.dispatch.second_groups import END_SECOND_GROUP, SECOND_GROUP
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.kicks import Kick, KickState
from oracle.domain.reports.lanes import lanes_of
from oracle.domain.reports.round_data import decode_records
from oracle.domain.reports.rounds import Rounds
from oracle.errors import TransientError
from oracle.kickouts.kickout_context import AGAINST, CANCEL_KICK
from oracle.reporting.push_retries import MOST_TRIES, GivenUp, given_up
from oracle.reporting.reporting_context import PUSH, ReportingContext
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import NOOP, Account
from oracle.telemetry.outbox_counts import AccountFigures, ContractFigures, OutboxFigures
from oracle.txmgr.budget import runway, show
from oracle.txmgr.client.receipts import nonce_at
from oracle.txmgr.context import TxContext

# Kinds that are exported as zero before the first call, so that alerts have a series.
CALL_KINDS = (
    *(PUSH, *AGAINST, CANCEL_KICK),
    *(START_TASK, START_GROUP, QUEUE_TASK, DROP_TASK, REQUEST_DOWNLOAD),
    *(PROBE, END_PROBE, SETTLE_CONTEST, SECOND_GROUP, END_SECOND_GROUP),
    NOOP,
)
_OUTCOMES = ("success", "reverted", "superseded", "foreign")


@dataclass(slots=True)
class OutboxRecount:
    """Counts the outbox and keeps the counts of nonces that are final."""

    _final: OutboxFigures = field(default_factory=OutboxFigures)
    _counted_below: dict[Account, int] = field(default_factory=dict)
    # Digests of abandoned statements that were already logged.
    _told: frozenset[Hash] = frozenset()

    def count(self, store: Store, now: int) -> OutboxFigures:
        """Count the rows and return the figures; `now` in unix seconds. No endpoint is queried."""
        with store.reading() as uow:
            accounts = uow.outbox.counts.accounts()
            for account, (_, waiting) in accounts.items():
                first = self._counted_below.get(account, 0)
                uow.outbox.counts.add_ended(self._final, account, first, waiting)
                self._counted_below[account] = max(first, waiting)
            figures = self._final.copy_counters()
            for account, (next_nonce, waiting) in accounts.items():
                uow.outbox.counts.add_ended(figures, account, waiting, next_nonce)
            superseded = uow.outbox.counts.superseded()
            figures.outcomes.update({(kind, "superseded"): n for kind, n in superseded.items()})
            for kind, outcome in product(CALL_KINDS, _OUTCOMES):
                figures.outcomes.setdefault((kind, outcome), 0)
            oldest = uow.outbox.counts.oldest()
            figures.ages = {each: max(0, now - since) for each, since in oldest.items()}
            figures.attempts = uow.outbox.counts.attempts()
            figures.kickouts = _kickouts(uow.rounds.kicks())
            _add_report(figures, uow)
            hopeless = given_up(uow)
            self._tell(hopeless)
            figures.given_up = len(hopeless)
            return figures

    def _tell(self, hopeless: list[GivenUp]) -> None:
        for one in hopeless:
            if one.digest not in self._told:
                structlog.get_logger().error(
                    "statement_abandoned",
                    round=one.round,
                    period=one.period,
                    digest=one.digest,
                    tries=MOST_TRIES,
                    last=one.why,
                    until=one.until,
                    act="its round was given and taken back by forks: `endpoint probe` shows which"
                    " endpoint is on another one; the next statement goes after `until`",
                )
        self._told = frozenset(one.digest for one in hopeless)


def with_accounts(
    figures: OutboxFigures, contexts: Mapping[str, TxContext], heads: Heads
) -> OutboxFigures:
    """Return the figures with those of the accounts by role, as far as endpoints answer."""
    return replace(
        figures, accounts={role: _account(context, heads) for role, context in contexts.items()}
    )


def with_contract(figures: OutboxFigures, context: ReportingContext) -> OutboxFigures:
    """Return the figures with the state of the oracle contract, if an endpoint answers."""
    heartbeat = context.settings.heartbeat_seconds
    try:
        contract_status, tokens = (
            context.quorum.contract_status(),
            context.quorum.contract().kick_tokens(),
        )
    except TransientError:
        return replace(figures, heartbeat_seconds=heartbeat)
    head = contract_status.head
    contract = ContractFigures(
        round=head.round,
        as_of_lag_blocks=max(0, contract_status.block.number - head.as_of) if head.round else 0,
        paused_until=head.paused_until,
        kicks_paused=head.kicks_paused,
        rules_agree=contract_status.rules_hash in {context.rules_hash, ZERO_HASH},
        kick_tokens=tokens,
        pushed_at=head.pushed_at,
    )
    return replace(figures, contract=contract, heartbeat_seconds=heartbeat)


def _account(context: TxContext, heads: Heads) -> AccountFigures:
    account, lines, now = context.account, context.publisher.lines, context.stamp.at
    with context.store.reading() as uow:
        next_nonce = uow.outbox.accounts.next_nonce(account) or 0
        pause = uow.outbox.accounts.paused_because(account)
        # The budget is exported even if nothing is sent, because its window moves with time.
        show(uow, context)
        seen = AccountFigures(
            paused=None if pause is None else pause.kind.value,
            next_nonce=next_nonce,
            open_nonces=uow.outbox.counts.open_nonces().get(account.address, 0),
            reserved_wei=uow.outbox.slots.reserved(account),
        )
    try:
        balance = context.balance()
        latest = nonce_at(lines, account.address, "latest")
        final = nonce_at(lines, account.address, hex(heads.final.number))
    except TransientError:
        return seen
    with context.store.reading() as uow:
        left = runway(uow, account, balance, now)
    return replace(seen, latest=latest, final=final, balance_wei=balance, runway_seconds=left)


def _kickouts(kicks: list[Kick]) -> dict[str, int]:
    counted = Counter(kick.state.value for kick in kicks)
    return {state.value: counted[state.value] for state in KickState}


def _add_report(figures: OutboxFigures, uow: UnitOfWork) -> None:
    """Add the word count of the newest report, and its maximum deviation from the contract."""
    newest = uow.reports.latest(1)
    if not newest:
        return
    words = decode_records(newest[0].report.records)
    rounds = uow.rounds.load() if words else Rounds()
    apart = [
        abs(wanted - held)
        for index, word in words
        for wanted, held in zip(lanes_of(word), lanes_of(_held(rounds, index)), strict=True)
    ]
    figures.report_words, figures.report_deviation = len(words), max(apart, default=0)


def _held(rounds: Rounds, index: int) -> int:
    word = rounds.words.get(index)
    return 0 if word is None else word.value
