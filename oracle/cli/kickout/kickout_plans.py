"""Plans manual kickout calls under the daemon's conditions; errors name the unmet condition."""

from collections.abc import Iterator
from dataclasses import replace

from oracle.bindings.qos_oracle import ContractStatus, OracleContract
from oracle.chain.heads import Heads
from oracle.cli.kickout.kickout_reasons import execution_obstacle, proposal_obstacle
from oracle.daemon.records import Records
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.kicks import Kick
from oracle.domain.state import Membership
from oracle.errors import InputError
from oracle.kickouts.kickout_context import KickoutContext
from oracle.kickouts.kickout_eligibility import KickoutCase, KickoutRules, is_kickout_still_due
from oracle.kickouts.kickout_planner import plan_kick_execution as plan_execution
from oracle.kickouts.proposer import propose_kickout as plan_proposal
from oracle.queries.text.text_tables import format_utc
from oracle.txmgr.client.preflight import PreflightResult
from oracle.txmgr.context import StepResult


def not_due_reason(records: Records, node: Address) -> str:
    """Return why a node has no due kickout, as far as the node's membership shows the reason."""
    with records.store.read_transaction() as uow:
        known_node = uow.nodes.get_many([node]).get(node)
    if known_node is None:
        return "no node with this address has ever joined; see `qos-oracle nodes`"
    if known_node.membership is Membership.KICKED_OUT:
        folder = records.config.oracle.evidence_folder
        return f"already kicked out; the evidence file is in {folder}, named by its hash"
    return "the kickout is not due; see `qos-oracle kickout list`"


def format_veto_deadline(node: str, ready_at: int, now: int) -> str:
    """Describe the time until which a live kickout can be vetoed; `now` is in chain time."""
    deadline = _format_utc_time(ready_at)
    if now < ready_at:
        return f"the vetoer has until {deadline}"
    return (
        f"the vetoer had until {deadline}; `qos-oracle kickout execute {node}` shows what else "
        "must happen first"
    )


def _format_utc_time(unix_seconds: int) -> str:
    return format_utc(unix_seconds, "%Y-%m-%d %H:%M:%S UTC")


def plan_manual_proposal(context: KickoutContext, case: KickoutCase, heads: Heads) -> StepResult:
    """Sign the proposal of an unobstructed case, and plan its call if possible.

    Raises:
        InputError: the database is behind, a report is held, or the proposal cannot be
            planned now; the message has the reason.
    """
    _check_synced(context, heads)
    contract_status = context.quorum.fetch_contract_status()
    signed_step = plan_proposal(context, case, contract_status)
    if signed_step is None:
        raise InputError(f"{case.node}: {proposal_obstacle(context, case, contract_status)}")
    # The first step signs the proposal if it is unsigned; the next step plans the call.
    if signed_step.intent_id is not None:
        return signed_step
    planned_step = plan_proposal(context, case, contract_status)
    obstacle_note = (
        ""
        if planned_step
        else f"; nothing is sent: {proposal_obstacle(context, case, contract_status)}"
    )
    return planned_step or replace(signed_step, detail=f"{signed_step.detail}{obstacle_note}")


def plan_manual_execution(context: KickoutContext, kick: Kick, heads: Heads) -> StepResult:
    """Plan the execution of a live kickout.

    Raises:
        InputError: the database is behind, a report is held, the evidence has changed, the veto
            period or the required rounds are not over, or the call cannot be planned now.
    """
    _check_synced(context, heads)
    with context.account_context.store.read_transaction() as uow:
        if not is_kickout_still_due(uow, KickoutRules(context.rules, context.settings), kick):
            raise InputError(
                f"{kick.node}: the kickout was proposed on evidence {kick.evidence}, but today "
                "other evidence makes the node due; check the proposal and its proposer "
                "(`qos-oracle kickout evidence`); the vetoer can cancel it"
            )
    contract_status = context.quorum.fetch_contract_status()
    pending_text = "; ".join(_pending_conditions(kick, contract_status))
    if pending_text:
        raise InputError(f"{kick.node}: the kickout cannot be executed yet: {pending_text}")
    planned_step = plan_execution(context, kick, contract_status)
    if planned_step is None:
        raise InputError(f"{kick.node}: {execution_obstacle(context, kick)}")
    if planned_step.intent_id is None:
        unsent_note = (
            "nothing sent yet: the underlying blocks are verified first; run the command again"
        )
        return replace(planned_step, detail=f"{planned_step.detail}; {unsent_note}")
    return planned_step


def cancel_refusal_reason(contract: OracleContract, verdict: PreflightResult) -> str:
    """Return why the contract rejects this daemon's cancellation, with an explanation if known."""
    if verdict.refusal is None or verdict.refusal.name != "NotAllowed":
        return verdict.reason or "the contract gives no reason"
    vetoer = contract.get_configuration().vetoer
    vetoer_text = "the contract has none" if vetoer == ZERO_ADDRESS else vetoer
    return (
        "while the node is below the threshold, only the vetoer can cancel the kickout "
        f"({vetoer_text}), and this daemon does not have the vetoer's key ({verdict.reason})"
    )


def _pending_conditions(kick: Kick, contract_status: ContractStatus) -> Iterator[str]:
    now, head = contract_status.block.time, contract_status.head
    if now < kick.ready_at:
        left = kick.ready_at - now
        deadline = _format_utc_time(kick.ready_at)
        yield f"the vetoer has until {deadline}, {left} s of chain time from now"
    executable_round = kick.round + contract_status.limits.kick_rounds
    if head.round < executable_round:
        yield f"round {executable_round} must be accepted first, the newest is {head.round}"


def _check_synced(context: KickoutContext, heads: Heads) -> None:
    with context.account_context.store.read_transaction() as uow:
        if not context.account_context.is_at_head(uow, heads):
            raise InputError(
                f"the database is behind block {heads.latest.number}, so a kickout that it shows "
                "as due may not be due any more; run `qos-oracle run --once` first"
            )
        if uow.holds.is_awaiting_operator():
            raise InputError(
                "a report is held, and kickouts wait for its review; see `qos-oracle "
                "report release`"
            )
