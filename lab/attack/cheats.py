"""Behaviours of dishonest nodes: what they do with a task, and when they leave."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from typing_extensions import override

from lab.closed_loop.players import (
    AGREED_LIE,
    ATTACKER,
    ERROR,
    HONEST,
    OWN_LIES,
    TRUTH,
    Behaviour,
    HonestBehaviour,
    Intention,
    LoopTask,
    NodeAnswer,
    Reaction,
    Turnpoint,
)

# Delay of made-up answers, in seconds; they are not sent in the second of the start.
_SOON = 5


class AlwaysSilent(HonestBehaviour):
    """Accepts tasks and never answers."""

    @override
    def begin(self, task: LoopTask) -> Intention:
        return Intention(None)


class AlwaysError(HonestBehaviour):
    """Reports an error at once, whatever the task."""

    @override
    def begin(self, task: LoopTask) -> Intention:
        return Intention(1)

    @override
    def finish(self, task: LoopTask) -> NodeAnswer:
        return NodeAnswer(ERROR, 0)


class SkipsGroups(HonestBehaviour):
    """Computes single tasks, which are always paid; ignores groups, where one of three is paid."""

    @override
    def begin(self, task: LoopTask) -> Intention:
        return super().begin(task) if task.order.group is None else Intention(None)


@dataclass(frozen=True, slots=True)
class CopiesAnswers(HonestBehaviour):
    """Waits in a group until a member has answered, and copies that answer.

    `are_answers_hidden`: answers cannot be read before all are committed, so the copied commitment
    cannot be opened.
    """

    hidden: bool

    @override
    def begin(self, task: LoopTask) -> Intention:
        return HONEST.begin(task) if task.order.group is None else Intention(None, fellows=1)

    @override
    def finish(self, task: LoopTask) -> NodeAnswer:
        if task.order.group is None:
            return HONEST.finish(task)
        known = [fellow.answer for fellow in task.fellows if fellow.answer is not None]
        if not known:
            return NodeAnswer(None, 0)
        return NodeAnswer(known[0], 0, opens=not self.hidden)


class FakesAlone(HonestBehaviour):
    """Makes up results of single tasks, which are not compared, and computes those of groups."""

    @override
    def begin(self, task: LoopTask) -> Intention:
        return super().begin(task) if task.order.group is not None else Intention(_SOON)

    @override
    def finish(self, task: LoopTask) -> NodeAnswer:
        if task.order.group is not None:
            return super().finish(task)
        return NodeAnswer(OWN_LIES, 0)


class GarbageFirst(HonestBehaviour):
    """Answers group tasks with garbage after one second, and computes single tasks."""

    @override
    def begin(self, task: LoopTask) -> Intention:
        return super().begin(task) if task.order.group is None else Intention(1)

    @override
    def finish(self, task: LoopTask) -> NodeAnswer:
        return super().finish(task) if task.order.group is None else NodeAnswer(OWN_LIES, 0)


class Colludes(HonestBehaviour):
    """Makes up a common result with other attackers if they are the majority of a group."""

    @override
    def begin(self, task: LoopTask) -> Intention:
        return Intention(_SOON) if _is_ours(task) else super().begin(task)

    @override
    def finish(self, task: LoopTask) -> NodeAnswer:
        return NodeAnswer(AGREED_LIE, 0) if _is_ours(task) else super().finish(task)


def _is_ours(task: LoopTask) -> bool:
    """Return whether more than half of a group are the attacker's nodes."""
    nodes = [each.node for each in task.order.tasks if each.node is not None]
    own = sum(node.role.owner == ATTACKER for node in nodes)
    return task.order.group is not None and 2 * own > task.order.shape.members


class SlowInGroups(HonestBehaviour):
    """Answers group tasks at the last moment, so that the other members wait."""

    @override
    def begin(self, task: LoopTask) -> Intention:
        if task.order.group is None:
            return super().begin(task)
        return Intention(task.order.shape.timeout)


class KnowsItsOwner(HonestBehaviour):
    """Answers its owner's orders at once, because the owner knows the result; else honest."""

    @override
    def begin(self, task: LoopTask) -> Intention:
        return Intention(1) if task.order.owner == ATTACKER else super().begin(task)

    @override
    def finish(self, task: LoopTask) -> NodeAnswer:
        return NodeAnswer(TRUTH, 0) if task.order.owner == ATTACKER else super().finish(task)


@dataclass(frozen=True, slots=True)
class Leaves:
    """Works like another behaviour, and leaves the network at chosen events."""

    works: Behaviour
    reactions: Mapping[Turnpoint, Reaction] = field(default_factory=dict)

    def begin(self, task: LoopTask) -> Intention:
        """Decide when to answer, as the base behaviour does."""
        return self.works.begin(task)

    def finish(self, task: LoopTask) -> NodeAnswer:
        """Answer as the base behaviour does."""
        return self.works.finish(task)

    def react(self, happening: Turnpoint) -> Reaction:
        """Return the configured reaction to an event, by default to stay."""
        return self.reactions.get(happening, Reaction.STAY)
