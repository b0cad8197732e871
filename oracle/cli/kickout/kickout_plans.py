"""Manual kickout plans under the daemon's conditions; errors name the missing condition."""

from collections.abc import Iterator
from dataclasses import replace

from oracle.bindings.qos_oracle import ContractStatus, OracleContract
from oracle.chain.heads import Heads
from oracle.cli.kickout.kickout_reasons import why_not_executed, why_not_proposed
from oracle.daemon.records import Records
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.kicks import Kick
from oracle.domain.state.node import Membership
from oracle.errors import InputError
from oracle.kickouts.kickout_context import KickoutContext
from oracle.kickouts.kickout_eligibility import KickoutCase, KickoutRules, is_kickout_still_due
from oracle.kickouts.kickout_planner import execute as plan_execution
from oracle.kickouts.proposer import propose as plan_proposal
from oracle.queries.text.text_tables import in_utc
from oracle.txmgr.client.preflight import PreflightResult
from oracle.txmgr.context import StepResult


def why_not_due(records: Records, node: Address) -> str:
    """Return why a node has no due kickout, as far as its membership shows."""
    with records.store.reading() as uow:
        found = uow.nodes.named([node]).get(node)
    if found is None:
        return "no node of this address has ever joined; `qos-oracle nodes` lists them"
    if found.membership is Membership.KICKED_OUT:
        folder = records.config.oracle.evidence_folder
        return f"it is kicked out already; the evidence lies in {folder}, named by its hash"
    return "its kickout is not due; `qos-oracle kickout list` shows whose is"


def veto_text(node: str, ready_at: int, now: int) -> str:
    """Return until when a live kickout can be vetoed; `now` is in chain time."""
    until = _utc_text(ready_at)
    if now < ready_at:
        return f"the vetoer has until {until}"
    return (
        f"the vetoer had until {until}; `qos-oracle kickout execute {node}` says what else it "
        "waits for"
    )


def _utc_text(time: int) -> str:
    return in_utc(time, "%Y-%m-%d %H:%M:%S UTC")


def proposed(context: KickoutContext, look: KickoutCase, heads: Heads) -> StepResult:
    """Sign the proposal of an unobstructed case, and plan its call if possible.

    Raises:
        InputError: the database is behind, a report is held, or the proposal cannot be
            planned now; the message has the reason.
    """
    _check_time(context, heads)
    contract_status = context.quorum.contract_status()
    signed = plan_proposal(context, look, contract_status)
    if signed is None:
        raise InputError(f"{look.node}: {why_not_proposed(context, look, contract_status)}")
    # The first step signs the proposal if it is unsigned; the next step plans the call.
    if signed.intent is not None:
        return signed
    planned = plan_proposal(context, look, contract_status)
    why = (
        "" if planned else f"; nothing is sent: {why_not_proposed(context, look, contract_status)}"
    )
    return planned or replace(signed, detail=f"{signed.detail}{why}")


def executed(context: KickoutContext, kick: Kick, heads: Heads) -> StepResult:
    """Plan the execution of a live kickout.

    Raises:
        InputError: the database is behind, a report is held, the evidence has changed, the veto
            period or the required rounds are not over, or the call cannot be planned now.
    """
    _check_time(context, heads)
    with context.tx.store.reading() as uow:
        if not is_kickout_still_due(uow, KickoutRules(context.rules, context.settings), kick):
            raise InputError(
                f"{kick.node}: it was proposed on evidence {kick.evidence}, and what makes the "
                "node due today is another one: look at who proposed it and on what "
                "(`qos-oracle kickout evidence`); the vetoer can cancel it"
            )
    contract_status = context.quorum.contract_status()
    waits = "; ".join(_waits(kick, contract_status))
    if waits:
        raise InputError(f"{kick.node}: it cannot be executed yet: {waits}")
    planned = plan_execution(context, kick, contract_status)
    if planned is None:
        raise InputError(f"{kick.node}: {why_not_executed(context, kick)}")
    if planned.intent is None:
        why = "nothing is sent yet: the blocks behind it are verified first; run it again"
        return replace(planned, detail=f"{planned.detail}; {why}")
    return planned


def why_not_cancelled(contract: OracleContract, verdict: PreflightResult) -> str:
    """Return why the contract refuses our cancellation, explained where possible."""
    if verdict.refusal is None or verdict.refusal.name != "NotAllowed":
        return verdict.reason or "the contract does not say why"
    vetoer = contract.constitution().vetoer
    who = (
        "nobody (the contract has no vetoer)" if vetoer == ZERO_ADDRESS else f"the vetoer {vetoer}"
    )
    return (
        f"while its node is under the line, {who} alone can cancel it, and no key of ours is that "
        f"one ({verdict.reason})"
    )


def _waits(kick: Kick, contract_status: ContractStatus) -> Iterator[str]:
    now, head = contract_status.block.time, contract_status.head
    if now < kick.ready_at:
        left = kick.ready_at - now
        yield f"the vetoer has until {_utc_text(kick.ready_at)}, {left} s more of the chain's time"
    ripe = kick.round + contract_status.limits.kick_rounds
    if head.round < ripe:
        yield f"round {ripe} has to be accepted first, the newest is {head.round}"


def _check_time(context: KickoutContext, heads: Heads) -> None:
    with context.tx.store.reading() as uow:
        if not context.tx.is_at_head(uow, heads):
            raise InputError(
                f"the database is behind block {heads.latest.number}: what is due there may be no "
                "longer due; run `qos-oracle run --once` first"
            )
        if uow.holds.is_any():
            raise InputError(
                "a report is held, and kickouts wait until a person has looked at it: "
                "`qos-oracle report release` shows why"
            )
