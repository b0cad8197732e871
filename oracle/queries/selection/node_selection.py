"""Who may have a task, how likely, and who is drawn: one selection with all its reasons."""

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
    """How to draw: the seed of 32 bytes, and how many nodes.

    `draws` None: as many as the system gives a task to, three in the legacy one and else one.
    """

    seed: bytes
    draws: int | None = None


@dataclass(frozen=True, slots=True)
class CandidateChance:
    """A verdict, and the probability of the first draw that follows from it.

    `chance` in units of 10^-18, rounded down; None: it is no candidate.
    """

    verdict: CandidateVerdict
    chance: int | None


@dataclass(frozen=True, slots=True)
class Selection:
    """What a policy says of a task; `judged` ascending by address, one for each member.

    `total` is the sum of weights as the first draw counts them. `lots` None: nothing was drawn,
    and `drawn` is empty. `trio`: how a legacy system drew its three, by a card group first where
    the task wants one card; None: not that way. `scarce`: what the start of the task would have
    others download, the nodes drawn being busy then; None: the policy knows no such thing.
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
        """Tell whether no candidate has any weight, so that each counts 1.

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
    """Judge every member for the task, and draw where there are lots to draw by.

    `follower` is the policy's, and has seen what the survey was made of if the policy remembers.
    Nodes that had another task of the same group, or are drawn for another task, are out.

    Raises:
        InputError: another number of draws than the system can make.
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
    """Return the task that an event creates, as the fold makes it."""
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
    """Where nobody has any weight, all count the same.

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
