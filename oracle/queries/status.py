"""The part of the database that `status`, `/v1/operations`, `/v1/status` and `/metrics` read."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from oracle import __version__
from oracle.chain.verification.refused_blocks import BlockRefusal
from oracle.domain.blocks import BlockRef
from oracle.domain.fixed_point import UNIT
from oracle.domain.reports.kicks import Kick, KickState
from oracle.domain.scoring.legacy_factors import peers_at
from oracle.domain.scoring.node_scores import (
    is_excluded,
    long_term,
    qos_at,
    reliability_at,
    status_of,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership
from oracle.indexer.audit.disputes import Dispute, disputes_in
from oracle.indexer.refused_block import refusal_in
from oracle.indexer.rules_binding import folded_by
from oracle.indexer.snapshots import state_mismatch
from oracle.kickouts.kickout_eligibility import due_intervals, held_among
from oracle.queries.feed_view import FeedView, feed_view
from oracle.queries.outbox_figures import CALL_KINDS
from oracle.queries.status_models import NetworkStatus, OutboxCount, ReorgEntry
from oracle.reporting.reporting_context import PUSH
from oracle.store.database import Store, UnitOfWork
from oracle.store.ops.halts import Halt
from oracle.store.ops.lease_repository import LeaseState
from oracle.store.outbox.records import REBUILT, Account, Intent, IntentState, Pause
from oracle.store.raw.reorg_repository import Reorg
from oracle.store.reports.hold_repository import ReportHold
from oracle.store.reports.report_repository import StoredReport
from oracle.store.state.rule_set_repository import RuleSet
from oracle.telemetry.metrics import Distribution, IndexStatistics
from oracle.txmgr.attribution import without_receipt

_STATUSES = ("available", "busy", "paused", "quit", "slashed", "kicked_out")
_PLANNED_PUSH = (IntentState.PLANNED, PUSH)
_NO_INTENTS = {(kind, state.value): 0 for kind in (*CALL_KINDS, REBUILT) for state in IntentState}


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The database at its cursor.

    `network` is the public part. `rules` are the rules that folded the database. `folded_block` is
    None if nothing is indexed yet. `oldest_draw_block` is the seed block of the oldest active
    draw, or None if no draw is active. `lease_holder` names the process that holds the lease, or
    is None. `halts` are the open halts; `reorg_endpoints` are the endpoints that showed the last
    fork. `pause_by_account` has every account that ever sent, with its pause or None. `refusal` is
    a block that the indexer refuses; `disputes` are blocks on which two endpoints disagree.
    `state_mismatch` states where the state differs from a fold of the stored logs. `held_reports`
    wait for a person; `planned_push` is the newest planned push; `proposed_kicks` are kickouts
    that are proposed on chain. `proven_wrong` maps endpoints that were proven wrong to the reason;
    `suspect_block_count` counts their blocks that were not yet checked against another endpoint.
    `missing_receipts` are the reasons of calls whose nonce is used while no endpoint shows a
    receipt. `unregistered_count` counts members with a score that have no index in the contract
    yet, if there is a contract; `refused_kick_count` counts expelled nodes whose membership the
    network did not end. `feed` is None if there is no feed beside the chain.
    """

    network: NetworkStatus
    rules: RuleSet | None
    folded: BlockRef | None
    final: int | None
    nodes: Mapping[str, int]
    reports: tuple[StoredReport, ...]
    oldest_draw: int | None
    lease: str | None
    halts: tuple[Halt, ...] = ()
    reorg_endpoints: tuple[str, ...] = ()
    accounts: Mapping[Account, Pause | None] = field(default_factory=dict)
    refusal: BlockRefusal | None = None
    disputes: tuple[Dispute, ...] = ()
    mismatch: str | None = None
    held: tuple[ReportHold, ...] = ()
    push: Intent | None = None
    kicks: tuple[Kick, ...] = ()
    wrong: Mapping[str, str] = field(default_factory=dict)
    suspect: int = 0
    unproven: tuple[str, ...] = ()
    unregistered: int = 0
    kicks_refused: int = 0
    feed: FeedView | None = None

    def lag_to(self, head: BlockRef | None) -> int | None:
        """Return how many blocks the fold is behind `head`, or None if either block is unknown."""
        if head is None or self.folded is None:
            return None
        return max(0, head.number - self.folded.number)


def overview(store: Store, worker: Callable[[LeaseState], str | None]) -> StatusReport:
    """Read one snapshot; no nodes are loaded except those whose kickout is due.

    `find_leader` returns the name of the process that holds the lease.
    """
    with store.reading() as uow:
        cursor, active = uow.cursor.get(), uow.draws.active()
        held = uow.lease.current()
        return StatusReport(
            network=network_status(uow),
            rules=folded_by(uow),
            folded=uow.blocks.at(cursor.number) if cursor else None,
            final=cursor.final_number if cursor else None,
            nodes=_by_status(uow.nodes.counts()),
            reports=tuple(uow.reports.latest(3)),
            oldest_draw=active[0].seed_block if active else None,
            lease=worker(held),
            halts=tuple(uow.halts.all_closed()),
            reorg_endpoints=tuple(
                name for reorg in uow.reorgs.newest(1) for name in reorg.endpoints
            ),
            accounts={
                account: uow.outbox.accounts.paused_because(account)
                for account in uow.outbox.counts.accounts()
            },
            refusal=refusal_in(uow),
            disputes=tuple(disputes_in(uow)),
            mismatch=state_mismatch(uow),
            held=tuple(uow.holds.waiting()),
            push=next(iter(uow.outbox.intents.newest(1, *_PLANNED_PUSH)), None),
            kicks=tuple(uow.rounds.live_kicks()),
            wrong=uow.facts.quarantine.reasons(),
            suspect=_suspect(uow),
            unproven=tuple(
                one.error_text or ""
                for account in uow.outbox.counts.accounts()
                for one in without_receipt(uow, account)
            ),
            unregistered=_unregistered(uow),
            feed=feed_view(uow),
            kicks_refused=sum(one.state is KickState.REFUSED for one in uow.rounds.expelled()),
        )


def network_status(uow: UnitOfWork) -> NetworkStatus:
    """Return the public part of the status."""
    identity, cursor = uow.identity.get(), uow.cursor.get()
    number, age = _round(uow, cursor.time if cursor else None)
    return NetworkStatus(
        version=__version__,
        chain_id=None if identity is None else identity.chain_id,
        start_block=None if identity is None else identity.start_block,
        round=number or None,
        round_age_seconds=age,
        outbox=[
            OutboxCount(kind=kind, state=state, count=count)
            for (kind, state), count in sorted(uow.outbox.intents.counts().items())
        ],
        reports_held=len(list(uow.holds.waiting())),
        kickouts_due=_due(uow),
        tasks_waiting=uow.tasks.count_waiting(),
        draws_standing=len(uow.draws.active()),
        levels=_levels(uow),
        dead_letters=uow.dead_letters.count_open(),
        anomalies=uow.anomalies.count(),
        last_reorg=next(map(_reorg_entry, uow.reorgs.newest(1)), None),
    )


def _reorg_entry(reorg: Reorg) -> ReorgEntry:
    return ReorgEntry(
        ancestor=reorg.ancestor,
        old_tip=reorg.old_tip,
        old_hash=reorg.old_hash,
        new_tip=reorg.new_tip,
        new_hash=reorg.new_hash,
        depth=reorg.depth,
        time=reorg.time,
        logs_orphaned=reorg.logs_orphaned,
    )


def statistics(store: Store, rules: Rules, balance_wei: int | None) -> IndexStatistics | None:
    """Compute the metrics as of the cursor's time, or return None if no block is indexed."""
    with store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            return None
        # Every status is exported, as zero at first, so that alerts have a series.
        statuses = Counter(dict.fromkeys(_STATUSES, 0))
        members = []
        for node in uow.nodes.all():
            statuses[status_of(node)] += 1
            if node.membership is Membership.MEMBER:
                members.append(node)
        peers = peers_at(members, cursor.time, rules)
        number, age = _round(uow, cursor.time)
        kicked = statuses[Membership.KICKED_OUT.value]
        due = due_intervals(uow, rules)
        return IndexStatistics(
            nodes=statuses,
            excluded=sum(is_excluded(node, cursor.time, rules) for node in members),
            long_term=Distribution.of(
                long_term(node, rules, cursor.time) / UNIT for node in members
            ),
            reliability=Distribution.of(
                reliability_at(node, cursor.time, rules) / UNIT for node in members
            ),
            qos=Distribution.of(
                (qos_at(node, cursor.time, rules, peers) or 0) / UNIT for node in members
            ),
            kickouts={"due": len(due), "held": held_among(uow, due, rules), "done": kicked},
            round=number,
            round_age=age,
            outbox=_NO_INTENTS | uow.outbox.intents.counts(),
            anomalies=uow.anomalies.count(),
            balance_wei=balance_wei,
        )


def _unregistered(uow: UnitOfWork) -> int:
    identity = uow.identity.get()
    has_contract = identity is not None and identity.oracle is not None
    return uow.registrations.count_waiting() if has_contract else 0


def _levels(uow: UnitOfWork) -> dict[str, int]:
    scope = uow.coverage.current()
    levels = {} if scope is None else uow.coverage.blocks_by_level(scope.id)
    return {level.name.lower(): blocks for level, blocks in sorted(levels.items())}


def _suspect(uow: UnitOfWork) -> int:
    scope = uow.coverage.current()
    return 0 if scope is None else uow.facts.quarantine.blocks(scope.id)


def _due(uow: UnitOfWork) -> int:
    """Count the kickouts that are due under the rules that folded the database."""
    folded = folded_by(uow)
    rules = None if folded is None else uow.rule_sets.with_digest(folded.sha256)
    # Rules of another release may be unreadable; `status` is shown nevertheless.
    return len(uow.kickouts.open() if rules is None else due_intervals(uow, rules))


def _round(uow: UnitOfWork, now: int | None) -> tuple[int, int | None]:
    """Return the number and age of the last accepted round, or 0 and None if there is none."""
    newest = uow.rounds.accepted(1)
    if not newest or now is None:
        return 0, None
    return newest[-1].round, now - newest[-1].time


def _by_status(counts: Mapping[tuple[Membership, bool, bool], int]) -> dict[str, int]:
    """Return the node counts under the status names of `node_scores.status_of`."""
    statuses: Counter[str] = Counter()
    for (membership, paused, running), count in counts.items():
        if membership is not Membership.MEMBER:
            statuses[membership.value] += count
        elif paused:
            statuses["paused"] += count
        else:
            statuses["busy" if running else "available"] += count
    return dict(statuses)
