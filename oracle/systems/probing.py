"""Plans system tasks, with the node, the time and the companions of each.

A system task is a task of the operator, which gives scores to nodes without other tasks. The plan
is a pure function of the chain. The time at which a node's task is due cannot be predicted before
the block that opens the window, and anyone can verify it afterwards. See
docs/explanation/dispatch.md#due-nodes.
"""

from collections.abc import Iterable, Sequence, Set as AbstractSet
from hashlib import sha256
from typing import NamedTuple

from oracle.domain.events.network_events import Version
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address, Hash
from oracle.domain.scoring.node_scores import compute_reliability
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node
from oracle.systems.crynux.requirements import find_unavailability_reason

# Number of other nodes that must do the same work, so that a task is scored.
_COMPANION_COUNT = 2
# No task becomes due in the last tenth of a window, so that every task can still start
# within the window.
_LAST_SHARE = 10
# Reliabilities (H) below which a node counts as nearly excluded, and as recovering.
_NEARLY_EXCLUDED = UNIT * 3 // 10
_RECOVERING = UNIT * 9 // 10


class ProbeWindow(NamedTuple):
    """A window of block time.

    `seed` is the hash of the first block in the window. `number` counts windows of `seconds`
    seconds from the epoch.
    """

    number: int
    seconds: int
    seed: Hash

    @property
    def start(self) -> int:
        """The block time at which the window began."""
        return self.number * self.seconds

    def compute_probe_due_time(self, node: Address) -> int:
        """Compute the block time from which a node without a task in the window is probed."""
        return self.start + self._hash_nodes(node) % max(
            1, self.seconds - self.seconds // _LAST_SHARE
        )

    def compute_companion_rank(self, node: Address, companion: Address) -> int:
        """Compute a companion's sort key for a probe of `node`.

        The companions with the lowest keys are chosen.
        """
        return self._hash_nodes(node, companion)

    def _hash_nodes(self, *nodes: Address) -> int:
        node_bytes = b"".join(bytes.fromhex(node[2:]) for node in nodes)
        return int.from_bytes(
            sha256(bytes.fromhex(self.seed[2:]) + node_bytes + b"probe").digest()
        )


class Probe(NamedTuple):
    """A system task for the first of these nodes.

    The other nodes do the same work at the same time. `version` is the lowest version of the
    nodes.
    """

    nodes: tuple[Address, ...]
    version: Version


def is_idle_in_window(node: Node, window: ProbeWindow) -> bool:
    """Return whether the node is a member without a task since the window began."""
    is_new = node.last_start is None or node.last_start < window.start
    return node.membership is Membership.MEMBER and is_new


def select_due_probes(
    nodes: Iterable[Node],
    window: ProbeWindow,
    time: int,
    rules: Rules,
    *,
    models: AbstractSet[str],
    with_companions: bool,
) -> list[Probe]:
    """Select the system tasks that are due, most urgent first.

    No node is in two tasks.

    Args:
        nodes: all known nodes, except those that are reserved for another task.
        window: the open window.
        time: block time in seconds.
        rules: the rules that decide which nodes are excluded.
        models: the models that a node must have on disk for the task.
        with_companions: whether two other nodes do the same work, so that the task gets a score.
    """
    available_nodes = [
        node
        for node in nodes
        if node.version is not None
        and find_unavailability_reason(node, time, rules) is None
        and models <= set(node.models)
    ]
    available_nodes.sort(key=lambda node: _get_urgency_key(node, time, rules))
    probes: list[Probe] = []
    busy_addresses: set[Address] = set()
    for node in available_nodes:
        is_due = (
            is_idle_in_window(node, window) and window.compute_probe_due_time(node.address) <= time
        )
        if is_due and node.address not in busy_addresses:
            free_nodes = [
                candidate
                for candidate in available_nodes
                if candidate.address not in busy_addresses and candidate is not node
            ]
            probed_nodes = [
                node,
                *(_choose_probe_companions(node, free_nodes, window) if with_companions else ()),
            ]
            busy_addresses.update(member.address for member in probed_nodes)
            probes.append(_build_probe(probed_nodes))
    return probes


def _get_urgency_key(node: Node, time: int, rules: Rules) -> tuple[int, int, Address]:
    """Return a sort key by which the nodes with the most urgent probes come first.

    Nodes that never got a task come first, then nearly excluded nodes, recovering nodes, and nodes
    without a task for the longest time. Equal nodes are sorted by address.
    """
    if node.last_start is None:
        return 0, 0, node.address
    reliability = compute_reliability(node, time, rules)
    urgency = 1 if reliability < _NEARLY_EXCLUDED else 2 if reliability < _RECOVERING else 3
    return urgency, node.last_start, node.address


def _choose_probe_companions(
    node: Node, free_nodes: Sequence[Node], window: ProbeWindow
) -> Sequence[Node]:
    """Choose two free nodes with the same hardware.

    The result is empty if there are fewer than two. With fewer nodes, the time of the task could
    not be compared. Nodes that had no task in the window come first, because the group then gives
    them a score, too.
    """
    comparable_nodes = [
        candidate
        for candidate in free_nodes
        if _get_hardware_key(candidate) == _get_hardware_key(node)
    ]
    comparable_nodes.sort(
        key=lambda candidate: (
            not is_idle_in_window(candidate, window),
            window.compute_companion_rank(node.address, candidate.address),
        )
    )
    return comparable_nodes[:_COMPANION_COUNT] if len(comparable_nodes) >= _COMPANION_COUNT else ()


def _get_hardware_key(node: Node) -> tuple[object, ...]:
    """Return GPU model, video memory and major version of a node."""
    return node.gpu_name, node.gpu_vram, node.version and node.version[0]


def _build_probe(team: Sequence[Node]) -> Probe:
    versions = [node.version for node in team if node.version is not None]
    return Probe(tuple(node.address for node in team), min(versions))
