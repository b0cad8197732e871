"""The records of the outbox, such as requests, intents, slots and attempts.

Each kind of call named here has a `CallKind` in the package that sends it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from oracle.domain.ids import Address, Hash

PUSH = "push"
# The subject of a kickout call is the node's address.
ACCUSE, EXECUTE_KICK, CLEAR_KICK = "accuse", "execute_kick", "clear_kick"
RETRY_KICK = "retry_kick"
# Kinds of calls that lead to an expulsion.
EXPULSION_KINDS = (ACCUSE, EXECUTE_KICK, RETRY_KICK)
SUBMIT_OBJECTION = "submit_objection"
# Kinds of calls to the hot set.
UPDATE_WORDS, BIND_NODES = "update_words", "bind_nodes"
HOT_SET_KINDS = (UPDATE_WORDS, BIND_NODES)
# Kinds of calls of the dispatcher.
START_TASK, START_GROUP = "start_task", "start_group"
QUEUE_TASK, DROP_TASK = "queue_task", "drop_task"
REQUEST_DOWNLOAD = "request_download"
PROBE, END_PROBE = "probe", "end_probe"
SETTLE_CONTEST = "settle_contest"
SECOND_GROUP, END_SECOND_GROUP = "second_group", "end_second_group"
# Kinds of the outbox's own calls. A no-op fills a nonce. A rebuilt call was sent by a lost
# database, and its nonce was read from the chain.
NOOP, REBUILT = "noop", "rebuilt"

# Each of these kinds is exported as zero before its first call, so that alerts have a series to
# watch.
CALL_KINDS = (
    *(PUSH, *EXPULSION_KINDS, CLEAR_KICK, SUBMIT_OBJECTION, *HOT_SET_KINDS),
    *(START_TASK, START_GROUP, QUEUE_TASK, DROP_TASK, REQUEST_DOWNLOAD),
    *(PROBE, END_PROBE, SETTLE_CONTEST, SECOND_GROUP, END_SECOND_GROUP),
    NOOP,
)
# Error class of a call that waits because another transmitter has an identical pending call.
YIELDED_CLASS = "yielded"
# Prefix of the reason of a pause that only an operator can end.
WRONG_SIGNATURE_PREFIX = "wrong answer of the signer"


class IntentState(StrEnum):
    """The state of an intent, from `planned` to one of the end states.

    The first five states follow each other. An intent in the state `held` waits for an operator.
    See docs/explanation/transactions.md#states.
    """

    PLANNED = "planned"
    READY = "ready"
    ASSIGNED = "assigned"
    LIVE = "live"
    MINED = "mined"
    FINAL = "final"
    REVERTED = "reverted"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REJECTED = "rejected"
    HELD = "held"


# A call in one of these states is pending.
PENDING_STATES = (
    IntentState.PLANNED,
    IntentState.READY,
    IntentState.ASSIGNED,
    IntentState.LIVE,
)
UNFINISHED_STATES = (*PENDING_STATES, IntentState.MINED)
FAILED_STATES = (
    IntentState.REVERTED,
    IntentState.SUPERSEDED,
    IntentState.EXPIRED,
    IntentState.REJECTED,
    IntentState.HELD,
)


class NonceState(StrEnum):
    OPEN = "open"
    LIVE = "live"
    MINED = "mined"
    FINAL = "final"
    FOREIGN = "foreign"


class AttemptReason(StrEnum):
    """The reason why a transaction was signed for a nonce."""

    FIRST = "first"
    BUMP = "bump"
    REPLACEMENT = "replacement"
    NOOP = "noop"


class PauseKind(StrEnum):
    """The reason why an account is paused or a call is held.

    A pause of kind `funds` ends automatically, and so does a pause of kind `signer` after a
    refusal (decision 0099).
    """

    FOREIGN = "foreign"
    FUNDS = "funds"
    CONFIG = "config"
    CHAIN = "chain"
    MALFORMED = "malformed"
    SIGNER = "signer"
    OPERATOR = "operator"


class Pause(NamedTuple):
    """The pause of an account, whose `reason` is a text for operators."""

    kind: PauseKind
    reason: str

    @property
    def is_temporary(self) -> bool:
        """Whether the pause ends automatically.

        A pause ends automatically if the account lacked ether or a signer refused to sign, but not
        if a signer returned a wrong signature.
        """
        has_signer_refused = self.kind is PauseKind.SIGNER and not self.reason.startswith(
            WRONG_SIGNATURE_PREFIX
        )
        return has_signer_refused or self.kind is PauseKind.FUNDS


class Account(NamedTuple):
    """A sending account on one chain."""

    chain_id: int
    address: Address


class Stamp(NamedTuple):
    """The time and the lease epoch of a write.

    `at` is in unix seconds. `actor` is the OS user of a command, or None for the daemon itself.
    """

    at: int
    epoch: int
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A request to send a call.

    `not_before` and `deadline` are block times in unix seconds. `kind` is the name of a registered
    kind of calls. `dedup_key` identifies the request for ever: a second request with the same key
    is refused, whatever the outcome of the first request. `subject` is a node's address, or
    `task=0x…`. If the request has no nonce, a rewind below `as_of_block` expires it. Only one call
    per `exclusive_key` can be ready, or have a nonce without signed bytes, at the same time.
    """

    account: Account
    contract: Address
    kind: str
    dedup_key: str
    calldata: str
    subject: str = ""
    period: int | None = None
    round: int | None = None
    as_of_block: int | None = None
    as_of_hash: Hash | None = None
    digest: Hash | None = None
    priority: int = 100
    not_before: int | None = None
    deadline: int | None = None
    exclusive_key: str | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """A requested call and its progress; costs are in wei.

    `replaces` is the id of the intent whose nonce this intent has taken over. `yielded_at` is the
    time at which this intent yielded to another transmitter, in unix seconds of the local clock.
    """

    id: int
    request: CallRequest
    state: IntentState
    nonce: int | None
    gas_limit: int | None
    max_cost_wei: int | None
    error_class: str | None
    error_text: str | None
    superseded_by: int | None
    created_at: int
    updated_at: int
    replaces: int | None
    yielded_at: int | None = None


@dataclass(frozen=True, slots=True)
class NonceSlot:
    """A nonce with the intent that currently uses it, and its receipt once it is mined.

    `opened_block` is the height of the head when the intent got the nonce, or 0 if unknown.
    `last_bump_block` is the height of the head when the last bump or replacement was first sent.
    `*_at` are in unix seconds of the local clock; `mined_at` is the time at which the current
    receipt was first seen.
    """

    account: Account
    nonce: int
    intent_id: int
    state: NonceState
    won_attempt: int | None
    block_number: int | None
    block_hash: Hash | None
    succeeded: bool | None
    gas_used: int | None
    gas_price_wei: int | None
    opened_block: int
    opened_at: int
    last_bump_block: int | None
    mined_at: int | None
    finalised_at: int | None


@dataclass(frozen=True, slots=True)
class SignedCall:
    """A signed transaction with its cost limits; fees are in wei per gas."""

    tx_hash: Hash
    raw: bytes
    max_fee_wei: int
    tip_wei: int
    gas_limit: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """A stored signed transaction, which never changes.

    `*_block` is the head when the transaction was sent.
    """

    id: int
    nonce: int
    intent_id: int
    seq: int
    signed: SignedCall
    sends: int
    last_sent_block: int | None
    last_error_class: str | None
    last_error_text: str | None
    reason: AttemptReason
    signed_at: int
    first_sent_block: int | None
    first_sent_at: int | None
    last_sent_at: int | None


class CallCost(NamedTuple):
    """The gas price of a mined call, and the data fee on a rollup, in wei."""

    gas_price_wei: int
    l1_fee_wei: int


@dataclass(frozen=True, slots=True)
class CallReceipt:
    """The receipt of a call, with the effective gas price in wei.

    `time` is the block's time in unix seconds, or None if the block was not fetched. `l1_fee_wei`
    is the data fee of a rollup, which is paid in addition to gas.
    """

    block_number: int
    block_hash: Hash
    succeeded: bool
    gas_used: int
    gas_price_wei: int
    time: int | None = None
    l1_fee_wei: int = 0


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """The signed statement of a report.

    `deadline` is a block time in unix seconds. `prev` is the root of the previous round, `root`
    the root of the report, and `config` the digest of the configuration under which the statement
    was signed. `expiry_reason` is why the contract can no longer accept the statement, or None if
    it still may.
    """

    chain_id: int
    contract: Address
    signer: Address
    round: int
    digest: Hash
    signature: bytes
    config: Hash
    prev: Hash
    as_of_block: int
    as_of_hash: Hash
    deadline: int
    root: Hash
    expiry_reason: str | None = None


@dataclass(frozen=True, slots=True)
class JournalEntry:
    at: int
    intent_id: int | None
    nonce: int | None
    attempt_id: int | None
    event: str
    detail: str
    epoch: int | None
    actor: str | None
