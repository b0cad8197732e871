"""Reads the data of `status`, `/v1/operations`, `/v1/status` and `/metrics` from the database.

The operator's status also has facts that only the running process has.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from oracle import __version__
from oracle.chain.verification.refused_blocks import BlockRefusal
from oracle.domain.blocks import BlockRef
from oracle.domain.fixed_point import UNIT
from oracle.domain.health import HealthReport
from oracle.domain.reports.kickout_review import KickoutPolicy
from oracle.domain.reports.node_kicks import KickState, NodeKick
from oracle.domain.scoring.legacy_factors import compute_population_maxima
from oracle.domain.scoring.node_scores import (
    compute_long_term_score,
    compute_node_qos,
    compute_reliability,
    get_status,
    is_excluded,
)
from oracle.domain.state import Membership
from oracle.indexer.block_confirmation import get_refusal
from oracle.indexer.rules_binding import get_bound_rules
from oracle.indexer.snapshots import find_state_mismatch
from oracle.kickouts.kickout_cases import count_held_intervals, load_open_kickout_intervals
from oracle.queries.answers import BlockView, build_rule_set_view
from oracle.queries.contract_view import AccountBalance, ChainView
from oracle.queries.endpoint_view import EndpointView
from oracle.queries.feed_view import FeedView, load_feed_view
from oracle.queries.kickout_models import build_node_kickout
from oracle.queries.outbox_figures import CALL_KINDS
from oracle.queries.report_models import HeldReport, build_report_entry
from oracle.queries.status_models import (
    CatchingUp,
    NetworkStatus,
    OperatorReorg,
    OperatorStatus,
    OutboxCount,
    ReorgEntry,
    SenderView,
    WaitingPush,
    build_halt_view,
    build_operator_health,
)
from oracle.reporting.reporting_context import PUSH
from oracle.store.database import Store, UnitOfWork
from oracle.store.halts import Halt
from oracle.store.lease_repository import LeaseState
from oracle.store.outbox.records import REBUILT, Account, Intent, IntentState, Pause
from oracle.store.report_repository import ReportHold, StoredReport
from oracle.store.state.rule_set_repository import RuleSet
from oracle.telemetry.metrics import IndexStatistics, count_shares
from oracle.txmgr.attribution import find_intents_without_receipt

_STATUSES = ("available", "busy", "paused", "quit", "slashed", "kicked_out")
_PLANNED_PUSH = (IntentState.PLANNED, PUSH)
_NO_INTENTS = {(kind, state.value): 0 for kind in (*CALL_KINDS, REBUILT) for state in IntentState}


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The state of the database at its cursor.

    `network` is the public part. `rules` are the rules that folded the database. `folded_block` is
    None if nothing is indexed yet. `oldest_draw_block` is the seed block of the oldest active
    draw, or None if no draw is active. `lease_holder` names the process that holds the lease, or
    is None. `halts` are the open halts. `reorg_endpoints` are the endpoints that showed the last
    fork. `pause_by_account` has every account that ever sent a transaction, with its pause or
    None. `refusal` is a block that the indexer refuses. `state_mismatch` states where the state
    differs from a fold of the stored logs. `held_reports` wait for an operator. `planned_push` is
    the newest planned push. `accused_kicks` are the kickouts that await execution. `proven_wrong`
    maps endpoints that were proven wrong to the reason, and `suspect_block_count` counts their
    blocks that were not yet checked against another endpoint. `missing_receipts` are the reasons
    of calls whose nonce is used while no endpoint shows a receipt. `refused_kick_count` counts
    expelled nodes whose membership the network did not end. `feed` is None if there is no feed
    beside the chain.
    """

    network: NetworkStatus
    rules: RuleSet | None
    folded_block: BlockRef | None
    final_block: int | None
    node_count_by_status: Mapping[str, int]
    reports: tuple[StoredReport, ...]
    oldest_draw_block: int | None
    lease_holder: str | None
    halts: tuple[Halt, ...] = ()
    reorg_endpoints: tuple[str, ...] = ()
    pause_by_account: Mapping[Account, Pause | None] = field(default_factory=dict)
    refusal: BlockRefusal | None = None
    state_mismatch: str | None = None
    held_reports: tuple[ReportHold, ...] = ()
    planned_push: Intent | None = None
    accused_kicks: tuple[NodeKick, ...] = ()
    proven_wrong: Mapping[str, str] = field(default_factory=dict)
    suspect_block_count: int = 0
    missing_receipts: tuple[str, ...] = ()
    refused_kick_count: int = 0
    feed: FeedView | None = None

    def compute_lag_blocks(self, head: BlockRef | None) -> int | None:
        """Return how many blocks the fold is behind `head`, or None if either block is unknown."""
        if head is None or self.folded_block is None:
            return None
        return max(0, head.number - self.folded_block.number)


def load_status_report(
    store: Store, find_leader: Callable[[LeaseState], str | None]
) -> StatusReport:
    """Load the status from one snapshot of the database.

    Of the nodes, only those with a due kickout are loaded. `find_leader` returns the name of the
    process that holds the lease, or None.
    """
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        active_draws = uow.draws.list_active()
        lease_state = uow.lease.get_state()
        return StatusReport(
            network=load_network_status(uow),
            rules=get_bound_rules(uow),
            folded_block=uow.blocks.find_canonical(cursor.number) if cursor else None,
            final_block=cursor.final_number if cursor else None,
            node_count_by_status=_count_nodes_by_status(uow.nodes.count_by_state()),
            reports=tuple(uow.reports.list_newest(3)),
            oldest_draw_block=active_draws[0].seed_block if active_draws else None,
            lease_holder=find_leader(lease_state),
            halts=tuple(uow.halts.list_open_halts()),
            reorg_endpoints=tuple(
                name for reorg in uow.reorgs.list_newest(1) for name in reorg.endpoints
            ),
            pause_by_account={
                account: uow.outbox.accounts.find_pause(account)
                for account in uow.outbox.counts.get_nonce_progress_by_account()
            },
            refusal=get_refusal(uow),
            state_mismatch=find_state_mismatch(uow),
            held_reports=tuple(uow.holds.list_awaiting_operator()),
            planned_push=next(iter(uow.outbox.intents.list_newest(1, *_PLANNED_PUSH)), None),
            accused_kicks=tuple(uow.rounds.list_accusations()),
            proven_wrong=uow.facts.quarantine.get_reason_by_endpoint(),
            suspect_block_count=count_suspect_blocks(uow),
            missing_receipts=tuple(
                call.error_text or ""
                for account in uow.outbox.counts.get_nonce_progress_by_account()
                for call in find_intents_without_receipt(uow, account)
            ),
            feed=load_feed_view(uow),
            refused_kick_count=sum(
                kick.state is KickState.REFUSED for kick in uow.rounds.list_expulsions()
            ),
        )


def load_network_status(uow: UnitOfWork) -> NetworkStatus:
    """Return the public part of the status."""
    identity = uow.identity.get()
    cursor = uow.cursor.get()
    round_number, round_age_seconds = _load_last_round(uow, cursor.time if cursor else None)
    return NetworkStatus(
        version=__version__,
        chain_id=None if identity is None else identity.chain_id,
        start_block=None if identity is None else identity.start_block,
        round=round_number or None,
        round_age_seconds=round_age_seconds,
        outbox=[
            OutboxCount(kind=kind, state=state, count=count)
            for (kind, state), count in sorted(
                uow.outbox.intents.count_by_kind_and_state().items()
            )
        ],
        reports_held=len(list(uow.holds.list_awaiting_operator())),
        kickouts_due=_count_due_kickouts(uow),
        tasks_waiting=uow.tasks.count_waiting(),
        draws_standing=len(uow.draws.list_active()),
        levels=_count_blocks_by_level(uow),
        dead_letters=uow.dead_letters.count_open(),
        anomalies=uow.anomalies.count(),
        last_reorg=next(map(ReorgEntry.model_validate, uow.reorgs.list_newest(1)), None),
    )


def compute_index_statistics(
    store: Store, policy: KickoutPolicy, balance_wei: int | None
) -> IndexStatistics | None:
    """Compute the metrics as of the cursor's time, or return None if no block is indexed."""
    rules = policy.rules
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            return None
        # Every status is exported, even if no node has it, so that alerts have a series.
        statuses = Counter(dict.fromkeys(_STATUSES, 0))
        members = []
        for node in uow.nodes.iterate_all():
            statuses[get_status(node)] += 1
            if node.membership is Membership.MEMBER:
                members.append(node)
        peers = compute_population_maxima(members, cursor.time, rules)
        round_number, round_age_seconds = _load_last_round(uow, cursor.time)
        kicked_count = statuses[Membership.KICKED_OUT.value]
        due_kickouts = load_open_kickout_intervals(uow, rules)
        return IndexStatistics(
            nodes=statuses,
            excluded=sum(is_excluded(node, cursor.time, rules) for node in members),
            long_term=count_shares(
                compute_long_term_score(node, rules, cursor.time) / UNIT for node in members
            ),
            reliability=count_shares(
                compute_reliability(node, cursor.time, rules) / UNIT for node in members
            ),
            qos=count_shares(
                (compute_node_qos(node, cursor.time, rules, peers) or 0) / UNIT for node in members
            ),
            kickouts={
                "due": len(due_kickouts),
                "held": count_held_intervals(uow, due_kickouts, policy),
                "done": kicked_count,
            },
            round=round_number,
            round_age=round_age_seconds,
            outbox=_NO_INTENTS | uow.outbox.intents.count_by_kind_and_state(),
            anomalies=uow.anomalies.count(),
            balance_wei=balance_wei,
        )


def _count_blocks_by_level(uow: UnitOfWork) -> dict[str, int]:
    scope = uow.coverage.get_current_scope()
    levels = {} if scope is None else uow.coverage.count_blocks_by_level(scope.id)
    return {level.name.lower(): blocks for level, blocks in sorted(levels.items())}


def count_suspect_blocks(uow: UnitOfWork) -> int:
    """Count the blocks read from endpoints proven wrong that no other endpoint has confirmed."""
    scope = uow.coverage.get_current_scope()
    return 0 if scope is None else uow.facts.quarantine.count_suspect_blocks(scope.id)


def _count_due_kickouts(uow: UnitOfWork) -> int:
    """Count the kickouts that are due under the rules that folded the database."""
    rule_set = get_bound_rules(uow)
    rules = None if rule_set is None else uow.rule_sets.find_rules(rule_set.sha256)
    # The rules of another release may be unreadable; `status` still works without them.
    return len(
        uow.kickouts.list_open() if rules is None else load_open_kickout_intervals(uow, rules)
    )


def _load_last_round(uow: UnitOfWork, now: int | None) -> tuple[int, int | None]:
    """Return the number of the last accepted round and its age in seconds, or 0 and None."""
    newest_rounds = uow.rounds.list_accepted(1)
    if not newest_rounds or now is None:
        return 0, None
    return newest_rounds[-1].round, now - newest_rounds[-1].time


def _count_nodes_by_status(counts: Mapping[tuple[Membership, bool, bool], int]) -> dict[str, int]:
    """Return the numbers of nodes by the status names of `node_scores.get_status`."""
    statuses: Counter[str] = Counter()
    for (membership, paused, running), count in counts.items():
        if membership is not Membership.MEMBER:
            statuses[membership.value] += count
        elif paused:
            statuses["paused"] += count
        else:
            statuses["busy" if running else "available"] += count
    return dict(statuses)


def build_operator_status(
    report: StatusReport,
    *,
    health: HealthReport,
    chain: ChainView,
    endpoints: list[EndpointView],
    dispatcher: AccountBalance | None,
    catching_up: CatchingUp | None = None,
) -> OperatorStatus:
    """Return the operator's status, combined from the report, the health and the chain.

    `dispatcher` is None if this process starts no tasks.
    """
    network, reorg = report.network, report.network.last_reorg
    return OperatorStatus(
        **network.model_dump(exclude={"last_reorg"}),
        health=build_operator_health(health),
        catching_up=catching_up,
        halts=[build_halt_view(halt) for halt in report.halts],
        rules=None if report.rules is None else build_rule_set_view(report.rules),
        folded=None if report.folded_block is None else BlockView(**report.folded_block._asdict()),
        final=report.final_block,
        head=None if chain.head is None else chain.head.number,
        head_time=None if chain.head is None else chain.head.time,
        lag_blocks=report.compute_lag_blocks(chain.head),
        contract=chain.build_contract_view(),
        senders=[
            SenderView(
                address=account.address,
                paused=None if pause is None else pause.kind.value,
                reason=None if pause is None else pause.reason,
            )
            for account, pause in report.pause_by_account.items()
        ],
        held=[HeldReport.model_validate(hold) for hold in report.held_reports],
        unproven=list(report.missing_receipts),
        state_mismatch=report.state_mismatch,
        push_waits=_build_waiting_push(report.planned_push),
        kickouts_accused=[build_node_kickout(kick) for kick in report.accused_kicks],
        kickouts_refused=report.refused_kick_count,
        endpoints=endpoints,
        endpoints_proven_wrong=dict(report.proven_wrong),
        suspect_blocks=report.suspect_block_count,
        refused=None if report.refusal is None else report.refusal.words,
        last_reorg=None
        if reorg is None
        else OperatorReorg(**reorg.model_dump(), endpoints=list(report.reorg_endpoints)),
        feed=report.feed,
        nodes=dict(sorted(report.node_count_by_status.items())),
        reports=[build_report_entry(stored) for stored in report.reports],
        oldest_draw_block=report.oldest_draw_block,
        dispatcher=dispatcher,
        lease=report.lease_holder,
    )


def _build_waiting_push(push: Intent | None) -> WaitingPush | None:
    if push is None or push.error_text is None:
        return None
    return WaitingPush(intent=push.id, reason=push.error_text)
