"""The selection of a node for a task: candidates, chances and the drawn nodes, with all reasons."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oracle.dispatch.downloads import with_planned
from oracle.domain.events.network_events import TaskCreated
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.task import Task
from oracle.errors import InputError
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.systems.crynux.crynux_policy import CrynuxPolicy
from oracle.systems.crynux.predownload import Predownload, predownloads
from oracle.systems.legacy.grading import TRIO
from oracle.systems.legacy.legacy_policy import LegacyPolicy
from oracle.systems.legacy.trio_selection import TrioChoice
from oracle.systems.policy import CandidateVerdict, Follower, PolicyInput, SelectionPolicy
from oracle.systems.weighted_draw import Drawn, draw


@dataclass(frozen=True, slots=True)
class DrawTickets:
    """The parameters of a draw: the seed of 32 bytes, and the number of nodes.

    `draw_count` None: as many nodes as the system gives a task to, three in the legacy one, else
    one.
    """

    seed: bytes
    draws: int | None = None


@dataclass(frozen=True, slots=True)
class CandidateChance:
    """A verdict, and the resulting probability of being drawn first.

    `chance` is in units of 10^-18, rounded down, or None if the node is no candidate.
    """

    verdict: CandidateVerdict
    chance: int | None


@dataclass(frozen=True, slots=True)
class Selection:
    """The verdict of a policy on a task; `chances` has one entry per member, ascending by address.

    `total_weight` is the sum of weights as the first draw counts them. `tickets` is None, and
    `drawn` is empty, if no node was drawn. `trio`: how a legacy system drew its three nodes, from
    a card group first if the task needs a single card type; None otherwise. `predownloads`: the
    downloads that the start of the task would cause, given that the drawn nodes are busy then;
    None if the policy has no predownloads.
    """

    policy: str
    version: int
    task: Task
    judged: Sequence[CandidateChance]
    total: int
    lots: DrawTickets | None
    drawn: Sequence[Drawn]
    trio: TrioChoice | None
    scarce: Sequence[Predownload] | None

    @property
    def has_equal_weights(self) -> bool:
        """Return whether no candidate has any weight, so that each counts 1.

        See docs/reference/scoring-rules.md#selection-weight.
        """
        return not any(judged.verdict.weight for judged in self.judged)


def select(
    snapshot: NetworkSnapshot,
    policy: SelectionPolicy,
    follower: Follower,
    task: Task,
    lots: DrawTickets | None = None,
) -> Selection:
    """Judge every member for the task, and draw nodes if there are tickets.

    `follower` belongs to the policy; if the policy has a memory, the follower must have received
    the events of the snapshot. Nodes that had another task of the same group, or are drawn for
    another task, are no candidates.

    Raises:
        InputError: the system cannot draw this number of nodes.
    """
    policy_input = PolicyInput(
        snapshot.nodes, snapshot.rules, snapshot.time, snapshot.taken_from(task)
    )
    verdicts = follower.verdicts(task, policy_input)
    weights = [(each.node, each.weight) for each in verdicts if each.weight is not None]
    total = sum(weight for _, weight in weights)
    drawn, trio = _draws(policy, task, policy_input, lots, weights)
    return Selection(
        policy=policy.name,
        version=policy.version,
        task=task,
        judged=[CandidateChance(each, _chance(each, total, len(weights))) for each in verdicts],
        total=total or len(weights),
        lots=lots,
        drawn=drawn,
        trio=trio,
        scarce=_scarce(policy, task, snapshot, drawn),
    )


def wanted_task(said: TaskCreated, rules: Rules) -> Task:
    """Return the task that an event creates, as the fold builds it."""
    fold = Fold(rules)
    fold.many([said])
    return fold.ledger.tasks[said.task]


def _draws(
    policy: SelectionPolicy,
    task: Task,
    policy_input: PolicyInput,
    lots: DrawTickets | None,
    weights: Sequence[tuple[Address, int]],
) -> tuple[Sequence[Drawn], TrioChoice | None]:
    if lots is None:
        return [], None
    if not isinstance(policy, LegacyPolicy):
        return draw(weights, lots.seed, 1 if lots.draws is None else lots.draws), None
    if lots.draws not in (None, TRIO):
        raise InputError(f"the legacy system draws {TRIO} nodes, not {lots.draws}")
    trio = policy.choose(task, policy_input, lots.seed)
    return ([], None) if trio is None else (trio.nodes, trio)


def _chance(verdict: CandidateVerdict, total: int, candidates: int) -> int | None:
    """Return the probability of being drawn first; if no candidate has any weight, all are equal.

    See docs/reference/scoring-rules.md#selection-weight.
    """
    if verdict.weight is None:
        return None
    return verdict.weight * UNIT // total if total else UNIT // candidates


def _scarce(
    policy: SelectionPolicy, task: Task, snapshot: NetworkSnapshot, drawn: Sequence[Drawn]
) -> list[Predownload] | None:
    if not isinstance(policy, CrynuxPolicy):
        return None
    now = PolicyInput(snapshot.nodes, snapshot.rules, snapshot.time)
    nodes = with_planned(now, snapshot.planned)
    busy = {each.node: replace(nodes[each.node], running=1) for each in drawn}
    after = replace(now, nodes={**nodes, **busy}, taken=frozenset(busy))
    return predownloads(task, after, policy.weighting, policy.spread)
