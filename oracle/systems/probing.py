"""System tasks: which node gets one in a window, when, and with which other nodes.

The plan is a pure function of the chain. A node's due time cannot be predicted before the block
that opens the window, and anyone can check it afterwards. See
docs/explanation/probing.md#when-and-who.
"""

from collections.abc import Iterable, Sequence, Set as AbstractSet
from hashlib import sha256
from typing import NamedTuple

from oracle.domain.events.network_events import Version
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address, Hash
from oracle.domain.scoring.node_scores import reliability_at
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership, Node
from oracle.systems.crynux.requirements import unavailability_reason

# A task score needs two other nodes that do the same work.
_COMPANIONS = 2
# No node becomes due within the last tenth of a window, so that the task still starts in it.
_LAST_TENTH = 10
# Below these values of H a node is nearly or just no longer excluded, and recovering.
_NEARLY_EXCLUDED, _RECOVERING = UNIT * 3 // 10, UNIT * 9 // 10


class ProbeWindow(NamedTuple):
    """A window of block time, and the hash of the first block in it.

    `number` counts windows of `seconds` from the epoch.
    """

    number: int
    seconds: int
    seed: Hash

    @property
    def start(self) -> int:
        """Return the block time at which the window began."""
        return self.number * self.seconds

    def due_at(self, node: Address) -> int:
        """Return the block time from which a node without a task is due for a probe."""
        return self.start + self._lot(node) % max(1, self.seconds - self.seconds // _LAST_TENTH)

    def lot_beside(self, node: Address, other: Address) -> int:
        """Return the lot of `companion` for working beside `node`; the smallest lot is chosen."""
        return self._lot(node, other)

    def _lot(self, *nodes: Address) -> int:
        named = b"".join(bytes.fromhex(node[2:]) for node in nodes)
        return int.from_bytes(sha256(bytes.fromhex(self.seed[2:]) + named + b"probe").digest())


class Probe(NamedTuple):
    """A system task for the first of these nodes; the others do the same work beside it.

    `version`: the lowest version of these nodes.
    """

    nodes: tuple[Address, ...]
    version: Version


def is_probe_due(node: Node, window: ProbeWindow) -> bool:
    """Return whether a member was given no task since the window began."""
    is_new = node.last_start is None or node.last_start < window.start
    return node.membership is Membership.MEMBER and is_new


def probes_due(
    nodes: Iterable[Node],
    window: ProbeWindow,
    at: tuple[int, Rules],
    taken: AbstractSet[Address],
    *,
    models: AbstractSet[str],
    group: bool,
) -> list[Probe]:
    """Return the system tasks that are due, the most urgent first, with no node in two of them.

    Args:
        nodes: every known node.
        window: the open window.
        time_and_rules: the block time in seconds, and the rules that decide which nodes are
            excluded.
        reserved: nodes that were drawn for another task.
        models: the models that a node must have on disk for the work.
        group: whether two other nodes do the same work, so that a task score results.
    """
    time, rules = at
    able = [
        node
        for node in nodes
        if node.address not in taken
        and node.version is not None
        and unavailability_reason(node, time, rules) is None
        and models <= set(node.models)
    ]
    able.sort(key=lambda node: _urgency(node, time, rules))
    found: list[Probe] = []
    busy: set[Address] = set()
    for node in able:
        is_due = is_probe_due(node, window) and window.due_at(node.address) <= time
        if is_due and node.address not in busy:
            free = [one for one in able if one.address not in busy and one is not node]
            team = [node, *(_companions(node, free, window) if group else ())]
            busy.update(one.address for one in team)
            found.append(_probe_of_team(team))
    return found


def _urgency(node: Node, time: int, rules: Rules) -> tuple[int, int, Address]:
    """Return the sort key: never tried, nearly excluded, recovering, longest idle, address."""
    if node.last_start is None:
        return 0, 0, node.address
    reliability = reliability_at(node, time, rules)
    rank = 1 if reliability < _NEARLY_EXCLUDED else 2 if reliability < _RECOVERING else 3
    return rank, node.last_start, node.address


def _companions(node: Node, free: Sequence[Node], window: ProbeWindow) -> Sequence[Node]:
    """Return two free nodes with the same card, or none if there are fewer.

    With fewer nodes the task's time could not be compared. Nodes without a task come first,
    because one group then serves all three.
    """
    like = [one for one in free if _comparable_hardware(one) == _comparable_hardware(node)]
    like.sort(
        key=lambda one: (
            not is_probe_due(one, window),
            window.lot_beside(node.address, one.address),
        )
    )
    return like[:_COMPANIONS] if len(like) >= _COMPANIONS else ()


def _comparable_hardware(node: Node) -> tuple[object, ...]:
    """Return the properties that comparable nodes share; a task runs on one major version."""
    return node.gpu_name, node.gpu_vram, node.version and node.version[0]


def _probe_of_team(team: Sequence[Node]) -> Probe:
    versions = [node.version for node in team if node.version is not None]
    return Probe(tuple(node.address for node in team), min(versions))
