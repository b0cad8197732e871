"""Events of the oracle contract: rounds, kickouts and settings (contracts/roots/QoSRoots.sol).

The module also has the rule changes that the contract's timelock schedules, cancels and executes,
and the events of `contracts/roots/Objections.sol`.

The on-chain state is folded from these logs alone. Nothing is read from the input of a
transaction, and nothing is inferred from what this daemon sent. See
docs/explanation/reports.md#fold-what-is-on-chain.

The fields of limits are in the order of the contract's structs.
"""

from dataclasses import dataclass

from oracle.domain.blocks import Position
from oracle.domain.ids import Address, Hash


@dataclass(frozen=True, slots=True)
class RootsLimits:
    """The fields of the contract's struct `Limits`; times are in seconds.

    The anchor window is in blocks, and QoS is in steps of 0.0001.
    """

    min_interval: int
    anchor_window: int
    max_age_seconds: int
    kick_below: int
    veto_delay: int
    kick_rounds: int
    min_open: int


@dataclass(frozen=True, slots=True)
class ContractKickLimits:
    """The fields of the contract's struct `KickLimits`; times are in seconds.

    `kick_cooldown` is the duration of expulsions; with `NEVER_EXPIRES`, expulsions have no end.
    """

    kick_gas: int
    kick_cooldown: int
    bucket_most: int
    bucket_per_frame: int
    bucket_frame: int


@dataclass(frozen=True, slots=True)
class RoundAccepted:
    at: Position
    time: int
    round: int
    as_of: int
    as_of_hash: Hash
    # The root of the round's tree, which the next report must name as `prev`.
    root: Hash
    # A digest of the chain, contract, signers, quorum and rules under which the round was signed.
    config: Hash
    # Bit i is set if the signer at index i of that configuration signed.
    signer_bitmap: int


@dataclass(frozen=True, slots=True)
class RoundsStruck:
    """The roots of rounds `first` to `last` (both included) were withdrawn.

    A withdrawn root proves nothing.
    """

    at: Position
    time: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class KickAccused:
    at: Position
    time: int
    node: Address
    # The last round accepted before the accusation.
    round: int
    # The Unix time since which the kickout has been due; it identifies the accused interval.
    due_since: int
    # A hash, from the node's leaf, of the scores behind the kickout.
    evidence: Hash
    # The Unix time from which the kickout may be executed.
    ready_at: int


@dataclass(frozen=True, slots=True)
class KickCancelled:
    at: Position
    time: int
    node: Address
    by: Address
    why: Hash


@dataclass(frozen=True, slots=True)
class KickAllowed:
    """The vetoer allowed a held kickout, which has been due since `due_since`.

    If `due_since` is 0, the vetoer withdrew the permission.
    """

    at: Position
    time: int
    node: Address
    due_since: int


@dataclass(frozen=True, slots=True)
class KickExecuted:
    at: Position
    time: int
    node: Address
    evidence: Hash
    # The contract called to end the membership, or the zero address if none was called.
    target: Address


@dataclass(frozen=True, slots=True)
class KickRefused:
    at: Position
    time: int
    node: Address
    target: Address
    # The first 32 bytes of the target's revert data.
    reason: Hash


@dataclass(frozen=True, slots=True)
class NodeExpelled:
    """At its deployment, the contract recorded that its predecessor had expelled the node."""

    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodeReadmitted:
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class LimitsSet:
    """The limits of reports and kickouts were set."""

    at: Position
    time: int
    limits: RootsLimits


@dataclass(frozen=True, slots=True)
class KickLimitsSet:
    """The limits of later expulsions were set: gas, duration and rate."""

    at: Position
    time: int
    limits: ContractKickLimits


@dataclass(frozen=True, slots=True)
class SignersSet:
    """Signers and quorum were set; the next ConfigSet event announces the configuration."""

    at: Position
    time: int
    signers: tuple[Address, ...]
    quorum: int


@dataclass(frozen=True, slots=True)
class ConfigSet:
    """Signers, quorum or rules were set; `count` is the number of the new configuration."""

    at: Position
    time: int
    count: int
    digest: Hash


@dataclass(frozen=True, slots=True)
class PausedUntil:
    """Rounds and kickouts were paused until `until` (unix seconds), or a pause ended early."""

    at: Position
    time: int
    until: int


@dataclass(frozen=True, slots=True)
class Objected:
    """A node objected to its kickout, which has been due since `due_since` (unix seconds).

    `seq` counts the node's objections from 0. `text` is untrusted input.
    """

    at: Position
    time: int
    node: Address
    due_since: int
    reason: int
    seq: int
    text: str


@dataclass(frozen=True, slots=True)
class RulesSet:
    """New rules were set, by which reports are computed from now on."""

    at: Position
    time: int
    # The SHA-256 of the rules id (docs/reference/report-format.md#rules-id).
    rules_hash: Hash


@dataclass(frozen=True, slots=True)
class RulesScheduled:
    """The timelock scheduled a `setRules` call of the oracle contract as part of an operation."""

    at: Position
    time: int
    operation: Hash
    rules_hash: Hash
    # The Unix time from which anyone may execute the call.
    ready_at: int


@dataclass(frozen=True, slots=True)
class OperationSalted:
    """A timelock operation got a salt, in the transaction that scheduled it."""

    at: Position
    time: int
    operation: Hash
    salt: Hash


@dataclass(frozen=True, slots=True)
class OperationCancelled:
    """A timelock operation was cancelled."""

    at: Position
    time: int
    operation: Hash


@dataclass(frozen=True, slots=True)
class RulesExecuted:
    """The timelock executed a `setRules` call of the oracle contract."""

    at: Position
    time: int
    operation: Hash
    rules_hash: Hash


# Changes of the rules and their announcements by the timelock.
RulesEvent = RulesSet | RulesScheduled | OperationSalted | OperationCancelled | RulesExecuted

# Settings made by the contract's administrators; each stays valid until it is set again.
SettingEvent = LimitsSet | KickLimitsSet | SignersSet | ConfigSet | PausedUntil | RulesEvent

# The events of a node's kickout.
KickEvent = (
    KickAccused
    | KickCancelled
    | KickAllowed
    | KickExecuted
    | KickRefused
    | NodeExpelled
    | NodeReadmitted
)

ContractEvent = RoundAccepted | RoundsStruck | KickEvent | SettingEvent | Objected
