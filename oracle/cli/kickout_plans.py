"""Plans manual kickout calls under the daemon's conditions; errors name the unmet condition."""

from collections.abc import Iterator

from oracle.bindings.qos_roots import RootsStatus
from oracle.chain.heads import Heads
from oracle.daemon.records import Records
from oracle.domain.ids import Address
from oracle.domain.reports.node_kicks import Accusation
from oracle.domain.roots.pieces import PiecedRound
from oracle.domain.state import Membership
from oracle.errors import InputError
from oracle.kickouts.kickout_cases import (
    NO_PROVABLE_ROUND,
    KickoutCase,
    is_accused_for_interval,
    load_kickout_cases,
    load_last_round,
)
from oracle.kickouts.kickout_context import KickoutContext
from oracle.kickouts.kickout_planner import (
    find_kickout_call_in_flight,
    plan_accusation,
    plan_accusation_clearing,
    plan_execution,
)
from oracle.queries.text.text_tables import format_block_time
from oracle.txmgr.context import StepResult


def get_kickout_not_due_reason(records: Records, node: Address) -> str:
    """Return why a node's kickout is not due, based on the node's membership."""
    with records.store.read_transaction() as uow:
        known_node = uow.nodes.get_many([node]).get(node)
    if known_node is None:
        return "no node with this address has ever joined; see `qos-oracle nodes`"
    if known_node.membership is Membership.KICKED_OUT:
        folder = records.config.oracle.evidence_folder
        return f"already kicked out; the evidence file is in {folder}, named by the node"
    return "the kickout is not due; see `qos-oracle kickout list`"


def format_veto_deadline(node: str, ready_at: int, now: int) -> str:
    """Return a clause with the time until which the vetoer can end an accusation.

    `now` is a block time in unix seconds.
    """
    deadline_text = format_block_time(ready_at)
    if now < ready_at:
        return f"the vetoer has until {deadline_text}"
    return (
        f"the vetoer had until {deadline_text}; `qos-oracle kickout execute {node}` shows what "
        "else must happen first"
    )


def plan_manual_accusation(context: KickoutContext, node: Address, heads: Heads) -> StepResult:
    """Plan a call that accuses a node.

    Raises:
        InputError: the database is behind, a report is held, or the node cannot be accused; the
            message has the reason.
    """
    case, last_round = _load_kickout_case(context, node, heads)
    if case.obstacle is not None:
        raise InputError(f"{node}: {case.obstacle}")
    step = plan_accusation(context, case, last_round)
    return step or _raise_not_planned_error(context, node)


def plan_manual_execution(context: KickoutContext, node: Address, heads: Heads) -> StepResult:
    """Plan a call that executes an accusation.

    Raises:
        InputError: the database is behind, a report is held, the last round states another
            interval, the veto period or the required rounds are not over, or the call cannot be
            planned.
    """
    case, last_round = _load_kickout_case(context, node, heads)
    accusation = None if case.kick is None or not case.kick.is_accused else case.kick.accusation
    if accusation is None:
        raise InputError(f"{node}: the node is not accused")
    if not is_accused_for_interval(case.kick, case.due_since):
        raise InputError(
            f"{node}: round {last_round.summary.round} no longer states the accused interval; "
            "`qos-oracle kickout clear` ends the accusation"
        )
    contract_status = context.quorum.fetch_contract_status()
    unmet_conditions_text = "; ".join(_iterate_unmet_conditions(accusation, contract_status))
    if unmet_conditions_text:
        raise InputError(f"{node}: the kickout cannot be executed yet: {unmet_conditions_text}")
    step = plan_execution(context, case, last_round, contract_status)
    return step or _raise_not_planned_error(context, node)


def plan_manual_accusation_clearing(
    context: KickoutContext, node: Address, heads: Heads
) -> StepResult:
    """Plan a call that ends an accusation no longer justified by the last round.

    Raises:
        InputError: the database is behind, the node is not accused, or the last round still
            states the accused interval.
    """
    case, last_round = _load_kickout_case(context, node, heads, may_hold_reports=True)
    if case.kick is None or not case.kick.is_accused:
        raise InputError(f"{node}: the node is not accused")
    if is_accused_for_interval(case.kick, case.due_since):
        raise InputError(
            f"{node}: round {last_round.summary.round} still states the accused interval; only "
            "the vetoer can end the accusation (`qos-oracle kickout veto`)"
        )
    return plan_accusation_clearing(context, case, last_round) or _raise_not_planned_error(
        context, node
    )


def _load_kickout_case(
    context: KickoutContext, node: Address, heads: Heads, *, may_hold_reports: bool = False
) -> tuple[KickoutCase, PiecedRound]:
    with context.account_context.store.read_transaction() as uow:
        if not context.account_context.is_at_head(uow, heads):
            raise InputError(
                f"the database is behind block {heads.latest.number}, so a kickout that it shows "
                "as due may no longer be due; run `qos-oracle run --once` first"
            )
        if uow.holds.is_awaiting_operator() and not may_hold_reports:
            raise InputError(
                "a report is held, and kickouts wait for its review; see `qos-oracle "
                "report release`"
            )
        cases = load_kickout_cases(
            uow, context.leaf_cache, context.policy, context.report_settings, [node]
        )
        last_round = load_last_round(uow, context.leaf_cache)
    if not cases:
        raise InputError(f"{node}: the kickout is not due; see `qos-oracle kickout list`")
    if last_round is None:
        raise InputError(
            f"{NO_PROVABLE_ROUND}; wait for the next round (`qos-oracle report push` shows its "
            "progress)"
        )
    return cases[0], last_round


def _iterate_unmet_conditions(
    accusation: Accusation, contract_status: RootsStatus
) -> Iterator[str]:
    now, head = contract_status.block.time, contract_status.head
    if now < accusation.ready_at:
        seconds_left = accusation.ready_at - now
        deadline_text = format_block_time(accusation.ready_at)
        yield f"the vetoer has until {deadline_text}, {seconds_left} s of chain time from now"
    executable_round = accusation.round + contract_status.limits.kick_rounds
    if head.round < executable_round:
        yield f"round {executable_round} must be accepted first, the newest is {head.round}"


def _raise_not_planned_error(context: KickoutContext, node: Address) -> StepResult:
    """Raise InputError with the reason why no call about the node was planned."""
    with context.account_context.store.read_transaction() as uow:
        intent = find_kickout_call_in_flight(context, uow, node)
    if intent is not None:
        raise InputError(
            f"{node}: another call for it ({intent.request.kind} {intent.id}) is "
            f"{intent.state.value}; see `qos-oracle outbox show {intent.id}`"
        )
    raise InputError(
        f"{node}: the contract rejects the call now, or the kickout is no longer due at the head; "
        "see `qos-oracle kickout list`"
    )
