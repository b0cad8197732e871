"""The status for the daemon's operator, printed by `status --json` and `/v1/operations`."""

from oracle.bindings.qos_oracle import REGISTRATION_GAS
from oracle.domain.health import HealthReport
from oracle.queries.answers import BlockView
from oracle.queries.contract_view import AccountBalance, ChainView
from oracle.queries.endpoint_view import EndpointView
from oracle.queries.halt_view import build_halt_view
from oracle.queries.kickout_view import build_node_proposal
from oracle.queries.reports.report_view import build_held_report, build_report_entry
from oracle.queries.rule_set_view import build_rule_set_view
from oracle.queries.status import StatusReport
from oracle.queries.status_models import (
    CatchingUp,
    OperatorReorg,
    OperatorStatus,
    SenderView,
    WaitingPush,
    build_operator_health,
)
from oracle.store.outbox.records import Intent


def build_operator_status(
    report: StatusReport,
    *,
    health: HealthReport,
    chain: ChainView,
    endpoints: list[EndpointView],
    dispatcher: AccountBalance | None,
    catching_up: CatchingUp | None = None,
) -> OperatorStatus:
    """Return the operator's status; `dispatcher` is None if this process starts no tasks."""
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
        lag_blocks=report.compute_lag(chain.head),
        contract=chain.build_contract_view(),
        senders=[
            SenderView(
                address=account.address,
                paused=None if pause is None else pause.kind.value,
                reason=None if pause is None else pause.reason,
            )
            for account, pause in report.pause_by_account.items()
        ],
        held=[build_held_report(hold) for hold in report.held_reports],
        unproven=list(report.missing_receipts),
        state_mismatch=report.state_mismatch,
        push_waits=_build_waiting_push(report.planned_push),
        kickouts_proposed=[build_node_proposal(kick) for kick in report.proposed_kicks],
        kickouts_refused=report.refused_kick_count,
        nodes_without_index=report.unregistered_count,
        registration_gas=report.unregistered_count * REGISTRATION_GAS,
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
