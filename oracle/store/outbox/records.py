"""What the outbox says in Python: requests, intents, slots, attempts, signatures."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from oracle.domain.ids import Address, Hash

# The two kinds of calls that are nobody's but the outbox's: nothing, to fill a nonce; and what is
# not ours to want any more, a nonce that a lost database gave out, read from the chain.
NOOP, REBUILT = "noop", "rebuilt"


class IntentState(StrEnum):
    """Planned, ready, assigned, live, mined; the rest are ends or parking.

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


# The class of a call that waits because another transmitter's for the same waits for a block.
YIELDED = "yielded"

# A call in one of these is on its way.
ON_ITS_WAY = (
    IntentState.PLANNED,
    IntentState.READY,
    IntentState.ASSIGNED,
    IntentState.LIVE,
)
UNFINISHED = (*ON_ITS_WAY, IntentState.MINED)
FAILED = (
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
    """Why bytes were signed for a nonce."""

    FIRST = "first"
    BUMP = "bump"
    REPLACEMENT = "replacement"
    NOOP = "noop"


# How the reason of a pause begins that a human has to end.
WRONG_SIGNATURE = "wrong answer of the signer"


class PauseKind(StrEnum):
    """Why an account opens no new nonce, or a call is held.

    `funds` ends by itself, and `signer` where it refused (decision 0099).
    """

    FOREIGN = "foreign"
    FUNDS = "funds"
    CONFIG = "config"
    CHAIN = "chain"
    MALFORMED = "malformed"
    SIGNER = "signer"
    OPERATOR = "operator"


class Pause(NamedTuple):
    """What an account is paused for; `reason` is for people."""

    kind: PauseKind
    reason: str

    @property
    def is_temporary(self) -> bool:
        """Whether it is over without a human: for ether, or for a key that refused."""
        refused = self.kind is PauseKind.SIGNER and not self.reason.startswith(WRONG_SIGNATURE)
        return refused or self.kind is PauseKind.FUNDS


class Account(NamedTuple):
    """Who sends, on which chain."""

    chain_id: int
    address: Address


class Stamp(NamedTuple):
    """Every write says when, in unix seconds, and under which epoch of the lease.

    `actor`: the OS user whose command this is; None: the daemon itself.
    """

    at: int
    epoch: int
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class CallRequest:
    """What is wanted on chain. `not_before` and `deadline` in chain time, unix seconds.

    `kind` is the name of a registered kind of calls. `dedup_key` names the request for ever: a
    second one of the same key is refused, whatever became of the first. `subject` is what it is
    about: a node's address, or `task=0x…`. `as_of_block`: what it rests on; a rewind below that
    expires it, as long as it has no nonce. Of the calls of one `exclusive_key` only one at a time
    is ready or has a nonce without bytes.
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
    """A request and how far it has come; costs in wei.

    `replaces`: the intent whose nonce this one was put on. `yielded_at`: when it was left to
    another transmitter, unix seconds of our clock.
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
    """A nonce, the intent that it serves, and the receipt once there is one.

    `opened_block`: the head when the intent got the nonce, 0 where that is not known.
    `last_bump_block`: the head when a dearer or another call of it was sent first.
    `*_at` in unix seconds of our clock; `mined_at`: when the receipt that stands was first seen.
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
    """Bytes about to be stored, and what they cost at most; fees in wei per gas."""

    tx_hash: Hash
    raw: bytes
    max_fee_wei: int
    tip_wei: int
    gas_limit: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """Signed bytes in the database; the same for ever. `*_block`: the head at that sending."""

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


class Paid(NamedTuple):
    """What a mined call cost: wei for each unit of gas, and what a rollup took beside gas."""

    gas_price_wei: int
    l1_fee_wei: int


@dataclass(frozen=True, slots=True)
class Mined:
    """What a receipt says; `gas_price_wei` is the price that was really paid.

    `time` of the block in unix seconds; None: not asked for. `l1_fee_wei`: what a rollup took for
    the data, beside gas.
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
    """What a signer put its name to; `expires_at` in chain time.

    `config`: the configuration of signers and rules that it was signed under. `expiry_reason`: why
    it can no longer land; None: it may.
    """

    chain_id: int
    contract: Address
    signer: Address
    kind: str
    round: int
    subject: str
    digest: Hash
    signature: bytes
    expires_at: int
    prev_digest: Hash | None = None
    as_of_block: int | None = None
    as_of_hash: Hash | None = None
    config: Hash | None = None
    expiry_reason: str | None = None


class JournalSubject(NamedTuple):
    """What a line of the journal is about."""

    intent_id: int | None = None
    nonce: int | None = None
    attempt_id: int | None = None


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
