"""The status for the operator of the daemon; `status --json` and `/v1/operations` show the same."""

from oracle.bindings.qos_oracle import REGISTRATION_GAS
from oracle.domain.health import HealthReport
from oracle.queries.answers import BlockView
from oracle.queries.contract_view import AccountBalance, ChainView
from oracle.queries.endpoint_view import EndpointView
from oracle.queries.halt_view import halt_view
from oracle.queries.kickout_view import node_proposal
from oracle.queries.reports.report_view import held_report, report_entry
from oracle.queries.rule_set_view import rule_set_view
from oracle.queries.status import StatusReport
from oracle.queries.status_models import (
    CatchingUp,
    OperatorReorg,
    OperatorStatus,
    SenderView,
    WaitingPush,
    operator_health,
)
from oracle.store.outbox.records import Intent


def operator_status(
    report: StatusReport,
    *,
    health: HealthReport,
    chain: ChainView,
    endpoints: list[EndpointView],
    dispatcher: AccountBalance | None,
    catching_up: CatchingUp | None = None,
) -> OperatorStatus:
    """Return the answer; `dispatcher` is None if this process starts no tasks."""
    network, reorg = report.network, report.network.last_reorg
    return OperatorStatus(
        **network.model_dump(exclude={"last_reorg"}),
        health=operator_health(health),
        catching_up=catching_up,
        halts=[halt_view(halt) for halt in report.halts],
        rules=None if report.rules is None else rule_set_view(report.rules),
        folded=None if report.folded is None else BlockView(**report.folded._asdict()),
        final=report.final,
        head=None if chain.head is None else chain.head.number,
        head_time=None if chain.head is None else chain.head.time,
        lag_blocks=report.lag_to(chain.head),
        contract=chain.contract_view(),
        senders=[
            SenderView(
                address=account.address,
                paused=None if pause is None else pause.kind.value,
                reason=None if pause is None else pause.reason,
            )
            for account, pause in report.accounts.items()
        ],
        held=[held_report(hold) for hold in report.held],
        unproven=list(report.unproven),
        state_mismatch=report.mismatch,
        push_waits=_waiting_push(report.push),
        kickouts_proposed=[node_proposal(kick) for kick in report.kicks],
        kickouts_refused=report.kicks_refused,
        nodes_without_index=report.unregistered,
        registration_gas=report.unregistered * REGISTRATION_GAS,
        endpoints=endpoints,
        endpoints_proven_wrong=dict(report.wrong),
        suspect_blocks=report.suspect,
        refused=None if report.refusal is None else report.refusal.words,
        last_reorg=None
        if reorg is None
        else OperatorReorg(**reorg.model_dump(), endpoints=list(report.reorg_endpoints)),
        feed=report.feed,
        nodes=dict(sorted(report.nodes.items())),
        reports=[report_entry(stored) for stored in report.reports],
        oldest_draw_block=report.oldest_draw,
        dispatcher=dispatcher,
        lease=report.lease,
    )


def _waiting_push(push: Intent | None) -> WaitingPush | None:
    if push is None or push.error_text is None:
        return None
    return WaitingPush(intent=push.id, reason=push.error_text)
