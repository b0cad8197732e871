"""Events of the oracle contract: rounds, indexes, kickouts, roles and limits.

The on-chain state is folded from these events, and never inferred from sent transactions. See
docs/reference/report-format.md#records, docs/explanation/reports.md#fold-what-is-on-chain.
"""

from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.ids import Address, Hash


class IndexReuse(NamedTuple):
    """A reused index: `new_node` replaces `old_node`, whose lane is "do not select"."""

    new_node: Address
    old_node: Address


class Registrations(NamedTuple):
    """The nodes that a round registers: first those that reuse an index, then those with new ones.

    Both are in the order in which the contract assigns the indexes.
    """

    reused: tuple[IndexReuse, ...] = ()
    appended: tuple[Address, ...] = ()

    @property
    def new_nodes(self) -> tuple[Address, ...]:
        """The nodes that get an index, in the order in which the contract assigns them."""
        return (*(pair.new_node for pair in self.reused), *self.appended)

    def compute_assigned_indexes(
        self, index_by_node: dict[Address, int], node_count: int
    ) -> dict[int, Address]:
        """Return the node of each assigned index, in the contract's order.

        Args:
            index_by_node: the index of each node that has one.
            node_count: the number of indexes that were assigned before.

        Raises:
            ValueError: an `old_node` has no index, or a node to register already has one.
        """
        node_by_index: dict[int, Address] = {}
        # Only the changed entries, so that a mapping of up to a million nodes is not copied.
        changed_indexes: dict[Address, int | None] = {}

        def get_current_index(node: Address) -> int | None:
            return changed_indexes[node] if node in changed_indexes else index_by_node.get(node)

        for new_node, old_node in self.reused:
            index = get_current_index(old_node)
            if index is None or get_current_index(new_node) is not None:
                raise ValueError(f"{new_node} cannot take the index of {old_node}")
            changed_indexes[old_node], changed_indexes[new_node] = None, index
            node_by_index[index] = new_node
        for index, new_node in enumerate(self.appended, start=node_count):
            if get_current_index(new_node) is not None:
                raise ValueError(f"{new_node} already has an index")
            changed_indexes[new_node] = index
            node_by_index[index] = new_node
        return node_by_index


NO_REGISTRATIONS = Registrations()


@dataclass(frozen=True, slots=True)
class NodeRegistered:
    at: Position
    time: int
    node: Address
    # Lane number of the node, 0 to 2^24 - 2.
    index: int


@dataclass(frozen=True, slots=True)
class RoundAccepted:
    at: Position
    time: int
    round: int
    as_of: int
    as_of_hash: Hash
    # keccak256 of the call's `data`, as the contract computed it.
    data_hash: Hash
    digest: Hash
    # Digest of the chain, contract, signers, quorum and rules under which the round was signed.
    config: Hash
    transmitter: Address
    # Decoded from the input of the `push` call and checked against `data_hash`: the registrations,
    # and (word index, word), ascending.
    registrations: Registrations
    words: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class KickProposed:
    at: Position
    time: int
    node: Address
    # The last accepted round at the time of the proposal.
    round: int
    evidence: Hash
    # The kickout may be executed between these unix times.
    ready_at: int
    dies_at: int


@dataclass(frozen=True, slots=True)
class KickCancelled:
    at: Position
    time: int
    node: Address
    by: Address
    why: Hash


@dataclass(frozen=True, slots=True)
class KickExecuted:
    at: Position
    time: int
    node: Address
    evidence: Hash
    # The contract that was called to end the membership; zero if none was.
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
    """The previous oracle contract had expelled the node; recorded at deployment."""

    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodeReadmitted:
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class RoleSet:
    at: Position
    time: int
    # The role's name in ASCII, padded with zero bytes; see VETOER.
    role: Hash
    who: Address


@dataclass(frozen=True, slots=True)
class LimitsSet:
    """The limits on the content of a round were set.

    `fall_share` is in 1/10,000, `big_fall` in lane steps.
    """

    at: Position
    time: int
    max_new_nodes: int
    fall_share: int
    big_fall: int


@dataclass(frozen=True, slots=True)
class KickLimitsSet:
    at: Position
    time: int
    # Duration, in seconds, of expulsions that are executed from then on.
    kick_cooldown: int


@dataclass(frozen=True, slots=True)
class ConfigSet:
    """Signers, quorum or rules were set; `count` is the number of the new configuration."""

    at: Position
    time: int
    count: int
    digest: Hash


# Settings of the contract's administrators, valid until they are set again.
SettingEvent = RoleSet | LimitsSet | KickLimitsSet | ConfigSet

# The only role that may cancel a kickout that can still be executed (Kickouts.sol).
VETOER = Hash("0x" + b"vetoer".ljust(32, b"\0").hex())

ContractEvent = (
    NodeRegistered
    | RoundAccepted
    | KickProposed
    | KickCancelled
    | KickExecuted
    | KickRefused
    | NodeExpelled
    | NodeReadmitted
    | RoleSet
    | LimitsSet
    | KickLimitsSet
    | ConfigSet
)
