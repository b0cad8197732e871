"""Reads the data of `status`, `/v1/operations`, `/v1/status` and `/metrics` from the database.

The operator's status also has facts that only the running process has.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from oracle import __version__
from oracle.domain.fixed_point import UNIT
from oracle.domain.health import HealthReport
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.node_kicks import KickState
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
from oracle.indexer.state_sample import find_state_mismatch
from oracle.kickouts.kickout_cases import count_held_intervals, load_open_kickout_intervals
from oracle.queries.answers import BlockView, RuleSetView
from oracle.queries.contract_view import AccountBalance, ChainView
from oracle.queries.endpoint_view import EndpointView
from oracle.queries.feed_view import load_feed_view
from oracle.queries.kickout_models import build_node_kickout
from oracle.queries.report_models import HeldReport, build_report_entry
from oracle.queries.status_models import (
    NetworkStatus,
    OperatorReorg,
    OperatorStatus,
    OutboxCount,
    ReorgEntry,
    WaitingPush,
    build_halt_view,
    build_operator_health,
    build_sender_view,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.lease_repository import LeaseState
from oracle.store.outbox.records import CALL_KINDS, PUSH, REBUILT, Intent, IntentState
from oracle.telemetry.metrics import IndexStatistics, count_shares
from oracle.txmgr.attribution import find_intents_without_receipt

_STATUSES = ("available", "busy", "paused", "quit", "slashed", "kicked_out")
_PLANNED_PUSH = (IntentState.PLANNED, PUSH)
_NO_INTENTS = {(kind, state.value): 0 for kind in (*CALL_KINDS, REBUILT) for state in IntentState}


def load_operator_status(
    store: Store,
    find_leader: Callable[[LeaseState], str | None],
    *,
    health: HealthReport,
    endpoints: list[EndpointView],
    dispatcher: AccountBalance | None,
) -> OperatorStatus:
    """Load the operator's status from one snapshot of the database.

    Of the nodes, only those with a due kickout are loaded. `find_leader` returns the name of the
    process that holds the lease, or None. `dispatcher` is None if this process starts no tasks.
    The head and the contract are unknown until `add_chain_view` adds them.
    """
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        folded_block = uow.blocks.find_canonical(cursor.number) if cursor else None
        active_draws = uow.draws.list_active()
        accounts = list(uow.outbox.counts.get_nonce_progress_by_account())
        rules, refusal = get_bound_rules(uow), get_refusal(uow)
        return OperatorStatus(
            **load_network_status(uow).model_dump(exclude={"last_reorg"}),
            head=None,
            head_time=None,
            lag_blocks=None,
            contract=ChainView(None).build_contract_view(),
            health=build_operator_health(health),
            catching_up=None,
            halts=[build_halt_view(halt) for halt in uow.halts.list_open_halts()],
            rules=None if rules is None else RuleSetView.model_validate(rules),
            folded=None if folded_block is None else BlockView(**folded_block._asdict()),
            final=cursor.final_number if cursor else None,
            senders=[
                build_sender_view(account, uow.outbox.accounts.find_pause(account))
                for account in accounts
            ],
            held=[HeldReport.model_validate(hold) for hold in uow.holds.list_awaiting_operator()],
            unproven=[
                call.error_text or ""
                for account in accounts
                for call in find_intents_without_receipt(uow, account)
            ],
            state_mismatch=find_state_mismatch(uow),
            push_waits=next(
                map(build_waiting_push, uow.outbox.intents.list_newest(1, *_PLANNED_PUSH)), None
            ),
            kickouts_accused=[build_node_kickout(kick) for kick in uow.rounds.list_accusations()],
            kickouts_refused=sum(
                kick.state is KickState.REFUSED for kick in uow.rounds.list_expulsions()
            ),
            endpoints=endpoints,
            endpoints_proven_wrong=dict(uow.facts.quarantine.get_reason_by_endpoint()),
            suspect_blocks=count_suspect_blocks(uow),
            refused=None if refusal is None else refusal.reason,
            last_reorg=next(map(OperatorReorg.model_validate, uow.reorgs.list_newest(1)), None),
            feed=load_feed_view(uow),
            nodes=_count_nodes_by_status(uow.nodes.count_by_state()),
            reports=[
                build_report_entry(stored_report) for stored_report in uow.reports.list_newest(3)
            ],
            oldest_draw_block=active_draws[0].seed_block if active_draws else None,
            dispatcher=dispatcher,
            lease=find_leader(uow.lease.get_state()),
        )


def add_chain_view(status: OperatorStatus, chain: ChainView) -> OperatorStatus:
    """Add the chain's head and the contract's state to the status."""
    head, folded = chain.head, status.folded
    return status.model_copy(
        update={
            "head": None if head is None else head.number,
            "head_time": None if head is None else head.time,
            "lag_blocks": None
            if head is None or folded is None
            else max(0, head.number - folded.number),
            "contract": chain.build_contract_view(),
        }
    )


def build_waiting_push(push: Intent) -> WaitingPush | None:
    """Return a planned push and why it waits, or None if it does not wait."""
    if push.error_text is None:
        return None
    return WaitingPush(intent=push.id, reason=push.error_text)


def load_network_status(uow: UnitOfWork) -> NetworkStatus:
    """Load the public part of the status."""
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
    """Compute the metrics at the cursor's time, or return None if no block is indexed."""
    rules = policy.rules
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            return None
        # Every status is exported, even if no node has it, so that alerts have a series to watch.
        statuses = Counter(dict.fromkeys(_STATUSES, 0))
        members = []
        for node in uow.nodes.iterate_all():
            statuses[get_status(node)] += 1
            if node.membership is Membership.MEMBER:
                members.append(node)
        population_maxima = compute_population_maxima(members, cursor.time, rules)
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
                (compute_node_qos(node, cursor.time, rules, population_maxima) or 0) / UNIT
                for node in members
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
    """Count the blocks that were read only from endpoints later proven wrong."""
    scope = uow.coverage.get_current_scope()
    return 0 if scope is None else uow.facts.quarantine.count_suspect_blocks(scope.id)


def _count_due_kickouts(uow: UnitOfWork) -> int:
    """Count the kickouts due under the rules of the database's last fold."""
    rule_set = get_bound_rules(uow)
    rules = None if rule_set is None else uow.rule_sets.find_rules(rule_set.sha256)
    # The rules of another release may be unreadable, but `status` must still work.
    return len(
        uow.kickouts.list_open() if rules is None else load_open_kickout_intervals(uow, rules)
    )


def _load_last_round(uow: UnitOfWork, now: int | None) -> tuple[int, int | None]:
    """Return the number and the age in seconds of the last accepted round.

    The result is 0 and None if no round was accepted.
    """
    newest_rounds = uow.rounds.list_accepted(1)
    if not newest_rounds or now is None:
        return 0, None
    return newest_rounds[-1].round, now - newest_rounds[-1].time


def _count_nodes_by_status(counts: Mapping[tuple[Membership, bool, bool], int]) -> dict[str, int]:
    """Count the nodes by the status that `node_scores.get_status` returns."""
    count_by_status: Counter[str] = Counter()
    for (membership, paused, running), count in counts.items():
        if membership is not Membership.MEMBER:
            count_by_status[membership.value] += count
        elif paused:
            count_by_status["paused"] += count
        else:
            count_by_status["busy" if running else "available"] += count
    return dict(sorted(count_by_status.items()))
