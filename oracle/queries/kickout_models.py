"""Kickouts: one model for `kickout`, `status`, the pages of a node, and `/v1/kickouts`."""

from pydantic import Field

from oracle.bindings.qos_oracle import KickBucket
from oracle.queries.answers import AddressText, ApiModel, HashText, LogPlace


class ProposedKickout(ApiModel):
    """The newest kickout of a node that was proposed on chain."""

    state: str = Field(examples=["live", "vetoed", "executed"])
    round: int
    evidence: HashText
    ready_at: int = Field(description="Time from which it may be executed, unix seconds.")
    dies_at: int
    reason: str | None = Field(
        description="Revert data of the network, which refused the kickout, as hex."
    )


class NodeProposal(ProposedKickout):
    """The newest kickout of a node that was proposed on chain, with the node."""

    node: AddressText


class ProposalEntry(NodeProposal):
    """A proposed kickout and its outcome."""

    proposed_at: LogPlace
    executed_at: LogPlace | None
    expelled_until: int | None = Field(description="Unix seconds.")


class KickoutEntry(ApiModel):
    """A node whose kickout is due or proposed."""

    node: AddressText
    due_since: LogPlace | None = Field(description="null: it is not due any more.")
    proposal: ProposedKickout | None = Field(description="null: none was ever proposed.")


class KickoutCaseEntry(KickoutEntry):
    """A node of `kickout list`, with the obstacle to proposing its kickout, if any."""

    index: int | None = Field(description="Index of the node in the contract; null: it has none.")
    lane: int | None = Field(description="Lane of the node in the contract.")
    evidence: HashText | None = Field(description="SHA-256 of the evidence that makes it due.")
    creators: int | None = Field(description="Number of creators of the tasks in the evidence.")
    rounds_low: int | None = Field(
        description="Number of consecutive newest rounds that showed the node below the threshold."
    )
    obstacle: str | None = Field(description="Why it cannot be proposed now; null: it can.")
    held: str | None = Field(description="Why an operator has to propose it.")


class KickoutList(ApiModel):
    """The answer of `kickout list`."""

    kickouts: list[KickoutCaseEntry]
    bucket: KickBucket | None = Field(description="null: the chain was not queried.")


class KickoutResult(KickoutCaseEntry):
    """The result of `kickout propose` and `kickout execute`, or of a dry run of them."""

    dry_run: bool
    contract_says: str | None = Field(description="Result of the simulated call in a dry run.")
    steps: list[str]


class KickoutCancellation(ApiModel):
    """The result of `kickout cancel`, or of a dry run of it."""

    node: AddressText
    not_sent: list[int] = Field(description="Calls of the outbox that will not be sent.")
    contract_says: str
    steps: list[str]
    dry_run: bool


class ExpulsionEntry(ApiModel):
    """A node that the oracle has expelled: a row of `kickout export`."""

    node: AddressText
    evidence: HashText
    round: int
    block: int
    until: int = Field(description="Unix seconds; 1099511627775: forever.")
    network: str = Field(
        description="Whether the network ended the membership; nobody: not requested.",
        examples=["nobody", "done", "refused"],
    )
