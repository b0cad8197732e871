"""The models of the oracle's status, in a public and an operator's part, and of halts.

The public part names no endpoints, hosts, accounts or folders.
"""

from typing import Literal

from pydantic import Field

from oracle.domain.health import HealthReport
from oracle.queries.answers import AddressText, Answer, ApiModel, BlockView, HashText, RuleSetView
from oracle.queries.contract_view import AccountBalance, ContractView
from oracle.queries.endpoint_view import EndpointView
from oracle.queries.feed_view import FeedView
from oracle.queries.kickout_models import NodeKickout
from oracle.queries.report_models import HeldReport, ReportEntry
from oracle.store.halts import Halt
from oracle.store.outbox.records import Account, Pause


class HaltView(ApiModel):
    """A halt of signing and sending; times are in unix seconds."""

    name: str
    active: bool
    since_block: int
    since_time: int
    reason: str
    block: int | None = Field(
        description="Block about which two sources disagree; null if the halt has another cause."
    )
    our_hash: HashText | None
    their_hash: HashText | None
    cleared_time: int | None = Field(
        description=(
            "Time by the operator's clock at which the halt was cleared, in unix seconds; null if "
            "it is active."
        )
    )
    cleared_by: str | None
    cleared_reason: str | None


class HaltClearance(ApiModel):
    """The result of clearing a halt manually, or of a dry run."""

    halt: str
    cleared: bool = Field(description="Whether the halt was cleared; false in a dry run.")
    reason: str


def build_halt_view(halt: Halt) -> HaltView:
    evidence, clear_record = halt.evidence, halt.cleared
    return HaltView(
        name=halt.name,
        active=clear_record is None,
        since_block=halt.since_block,
        since_time=halt.since_time,
        reason=halt.reason,
        block=None if evidence is None else evidence.block,
        our_hash=None if evidence is None else evidence.our_hash,
        their_hash=None if evidence is None else evidence.their_hash,
        cleared_time=None if clear_record is None else clear_record.time,
        cleared_by=None if clear_record is None else clear_record.by,
        cleared_reason=None if clear_record is None else clear_record.reason,
    )


class HealthView(ApiModel):
    """The oracle's health as a single status, and the active conditions."""

    status: Literal["well", "attention", "down"] = Field(
        description=(
            "`well`: no condition is active. `attention`: a condition is active, but work "
            "continues. `down`: a condition stops all work, or no daemon runs while the index is "
            "behind."
        )
    )
    conditions: list[str] = Field(
        description=(
            "Names of the active conditions (docs/explanation/health.md); empty if none is active."
        )
    )
    reasons: list[str] = Field(description="Reasons of the active conditions, as sentences.")


def build_operator_health(health: HealthReport) -> HealthView:
    """Build the operator's health view, which may name endpoints, accounts and folders."""
    return HealthView.model_validate(health.to_dict())


def build_public_health(health: HealthReport) -> HealthView:
    """Build the public health view, which shows only the titles of conditions."""
    condition_titles = [condition.title for condition in health.conditions]
    return HealthView.model_validate({**health.to_dict(), "reasons": condition_titles})


class OutboxCount(ApiModel):
    """The number of outbox calls of one kind in one state."""

    kind: str = Field(examples=["push"])
    state: str = Field(examples=["final"])
    count: int


class ReorgEntry(ApiModel):
    """The last reorg: the replaced blocks, and the blocks that replaced them."""

    ancestor: int = Field(description="The last block that both forks share.")
    old_tip: int
    old_hash: HashText
    new_tip: int | None = Field(
        description=(
            "The newest block of the new fork when the reorg was found; null if no endpoint "
            "returned it."
        )
    )
    new_hash: HashText | None
    depth: int
    time: int = Field(description="Time of the newest block of the old fork, in unix seconds.")
    logs_orphaned: int


class NetworkStatus(ApiModel):
    """The progress of indexing and reporting, as stored in the database."""

    version: str
    chain_id: int | None
    start_block: int | None
    round: int | None = Field(
        description="Number of the last accepted round; null if no round was accepted."
    )
    round_age_seconds: int | None = Field(
        description=(
            "Seconds from the acceptance of this round to the time of the last indexed block; "
            "null if no round was accepted."
        )
    )
    outbox: list[OutboxCount] = Field(description="Number of calls by kind and state.")
    reports_held: int
    kickouts_due: int
    tasks_waiting: int
    draws_standing: int
    levels: dict[str, int] = Field(
        description=(
            "Number of blocks, read for the configured contracts and events, by verification "
            "level."
        )
    )
    dead_letters: int = Field(
        description="Number of logs and calls of known kinds that could not be decoded."
    )
    anomalies: int = Field(description="Number of events that broke a rule and were ignored.")
    last_reorg: ReorgEntry | None


class HealthAnswer(ApiModel):
    """Base class of the status answers, all of which include the health."""

    health: HealthView


class PublicStatus(NetworkStatus, HealthAnswer, Answer):
    """The public status of the oracle."""


class CatchingUp(ApiModel):
    """How fast the daemon is catching up with the newest block."""

    blocks_left: int
    blocks_per_second: float
    watched_seconds: float = Field(
        description="Number of seconds over which the progress was measured."
    )
    until: int | None = Field(
        description=(
            "Estimated time at which the index is synced, in unix seconds by this machine's "
            "clock; null if there was no progress."
        )
    )


class WaitingPush(ApiModel):
    """The newest planned push of a report, and why it waits."""

    intent: int = Field(description="Number of the call in the outbox.")
    reason: str


class SenderView(ApiModel):
    """An account that sends transactions."""

    address: AddressText
    paused: str | None = Field(
        description="Why the sender is paused; null if it may send.", examples=["funds"]
    )
    reason: str | None


def build_sender_view(account: Account, pause: Pause | None) -> SenderView:
    return SenderView(
        address=account.address,
        paused=None if pause is None else pause.kind.value,
        reason=None if pause is None else pause.reason,
    )


class OperatorReorg(ReorgEntry):
    """The last reorg, and the endpoints that reported it."""

    endpoints: list[str]


class OperatorStatus(NetworkStatus, HealthAnswer):
    """The oracle's status for its operator: `status --json` and `/v1/operations`."""

    catching_up: CatchingUp | None = Field(
        description=(
            "Progress of the backfill; null if the index is synced, or if the progress was not "
            "measured."
        )
    )
    halts: list[HaltView]
    rules: RuleSetView | None
    folded: BlockView | None = Field(
        description="The last indexed block; null if no block is indexed."
    )
    final: int | None
    head: int | None = Field(description="The newest block of the chain; null if it is unknown.")
    head_time: int | None = Field(
        description="Time of the newest block, in unix seconds; null if it is unknown."
    )
    lag_blocks: int | None
    contract: ContractView
    senders: list[SenderView]
    held: list[HeldReport]
    unproven: list[str] = Field(
        description="Reasons of calls whose nonce was used although no endpoint returns a receipt."
    )
    state_mismatch: str | None = Field(
        description="Where the state differs from a fold of the stored logs; null if it does not."
    )
    push_waits: WaitingPush | None = Field(
        description=(
            "The newest planned push, and why it waits; null if no push is planned, or if it does "
            "not wait."
        )
    )
    kickouts_accused: list[NodeKickout]
    kickouts_refused: int = Field(
        description="Number of expelled nodes that the network kept as members."
    )
    endpoints: list[EndpointView]
    endpoints_proven_wrong: dict[str, str] = Field(
        description="Reasons by name of the endpoints that were proven wrong."
    )
    suspect_blocks: int = Field(
        description=(
            "Number of blocks that were read only from endpoints proven wrong later, and that no "
            "other endpoint has confirmed."
        )
    )
    refused: str | None = Field(
        description="The refused block, and why it was refused; null if no block is refused."
    )
    last_reorg: OperatorReorg | None
    feed: FeedView | None = Field(
        description="State of the feed; null if this database never read one."
    )
    nodes: dict[str, int] = Field(
        description="Number of nodes by status, such as `available`, `busy`, `paused` or `quit`."
    )
    reports: list[ReportEntry] = Field(description="The three newest reports of this reporter.")
    oldest_draw_block: int | None
    dispatcher: AccountBalance | None = Field(
        description="Account that starts tasks; null if this process starts no tasks."
    )
    lease: str | None = Field(
        description="Process that has the lease of the database; null if no process has it."
    )
