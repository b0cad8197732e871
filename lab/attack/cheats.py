"""Behaviours of dishonest nodes: how they handle tasks and when they leave."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from typing_extensions import override

from lab.closed_loop.players import (
    AGREED_LIE,
    ATTACKER,
    ERROR,
    FIRST_UNIQUE_LIE,
    HONEST,
    TRUTH,
    Behaviour,
    HonestBehaviour,
    Intention,
    LoopTask,
    NodeAnswer,
    NodeEvent,
    Reaction,
)

# Seconds by which an invented answer is delayed, so that it does not come in the second of the
# start.
_FAKE_ANSWER_SECONDS = 5


class SilentBehaviour(HonestBehaviour):
    """Accepts tasks but never answers."""

    @override
    def choose_answer_time(self, task: LoopTask) -> Intention:
        return Intention(None)


# A faked outage lasts ten minutes every four hours. If outages were more frequent, they would
# count as usual.
_OUTAGE_SECONDS, _OUTAGE_PERIOD_SECONDS = 600, 14_400
_OUTAGE_OFFSET_SECONDS = 7_200


class OutageBehaviour(HonestBehaviour):
    """Works, but answers no task in the same ten minutes of every four hours.

    All tasks in these minutes time out. All nodes of one owner do this at the same time, so that
    it looks like a network outage.
    """

    @override
    def choose_answer_time(self, task: LoopTask) -> Intention:
        started_at = task.started_at or 0
        seconds_into_period = (started_at - _OUTAGE_OFFSET_SECONDS) % _OUTAGE_PERIOD_SECONDS
        is_outage = seconds_into_period < _OUTAGE_SECONDS
        return Intention(None) if is_outage else super().choose_answer_time(task)


class ErrorBehaviour(HonestBehaviour):
    """Reports an error for every task after one second."""

    @override
    def choose_answer_time(self, task: LoopTask) -> Intention:
        return Intention(1)

    @override
    def choose_answer(self, task: LoopTask) -> NodeAnswer:
        return NodeAnswer(ERROR, 0)


class GroupSkippingBehaviour(HonestBehaviour):
    """Computes single tasks but ignores group tasks, where only one of three nodes is paid."""

    @override
    def choose_answer_time(self, task: LoopTask) -> Intention:
        return super().choose_answer_time(task) if task.order.group is None else Intention(None)


@dataclass(frozen=True, slots=True)
class CopyingBehaviour(HonestBehaviour):
    """Waits in a group for another member's answer, and copies it.

    If `are_answers_hidden` is set, the other member's answer is only visible as a commitment,
    which the copying node cannot open.
    """

    are_answers_hidden: bool

    @override
    def choose_answer_time(self, task: LoopTask) -> Intention:
        if task.order.group is None:
            return HONEST.choose_answer_time(task)
        return Intention(None, awaited_answers=1)

    @override
    def choose_answer(self, task: LoopTask) -> NodeAnswer:
        if task.order.group is None:
            return HONEST.choose_answer(task)
        group_answers = [peer.answer for peer in task.group_peers if peer.answer is not None]
        if not group_answers:
            return NodeAnswer(None, 0)
        return NodeAnswer(group_answers[0], 0, can_reveal=not self.are_answers_hidden)


class SingleTaskFakingBehaviour(HonestBehaviour):
    """Invents the results of single tasks, which nobody compares, but computes group tasks."""

    @override
    def choose_answer_time(self, task: LoopTask) -> Intention:
        if task.order.group is not None:
            return super().choose_answer_time(task)
        return Intention(_FAKE_ANSWER_SECONDS)

    @override
    def choose_answer(self, task: LoopTask) -> NodeAnswer:
        if task.order.group is not None:
            return super().choose_answer(task)
        return NodeAnswer(FIRST_UNIQUE_LIE, 0)


class GroupGarbageBehaviour(HonestBehaviour):
    """Answers group tasks with garbage after one second, but computes single tasks."""

    @override
    def choose_answer_time(self, task: LoopTask) -> Intention:
        return super().choose_answer_time(task) if task.order.group is None else Intention(1)

    @override
    def choose_answer(self, task: LoopTask) -> NodeAnswer:
        if task.order.group is None:
            return super().choose_answer(task)
        return NodeAnswer(FIRST_UNIQUE_LIE, 0)


class ColludingBehaviour(HonestBehaviour):
    """Gives the same wrong result in groups where the attacker's nodes are a majority.

    The attacker's nodes agreed on the result.
    """

    @override
    def choose_answer_time(self, task: LoopTask) -> Intention:
        if _has_attacker_majority(task):
            return Intention(_FAKE_ANSWER_SECONDS)
        return super().choose_answer_time(task)

    @override
    def choose_answer(self, task: LoopTask) -> NodeAnswer:
        if _has_attacker_majority(task):
            return NodeAnswer(AGREED_LIE, 0)
        return super().choose_answer(task)


def _has_attacker_majority(task: LoopTask) -> bool:
    """Return whether more than half of a group's members are the attacker's nodes."""
    nodes = [group_task.node for group_task in task.order.tasks if group_task.node is not None]
    attacker_count = sum(node.role.owner == ATTACKER for node in nodes)
    return task.order.group is not None and 2 * attacker_count > task.order.shape.members


class GroupStallingBehaviour(HonestBehaviour):
    """Answers group tasks in the last second, to make the other members wait."""

    @override
    def choose_answer_time(self, task: LoopTask) -> Intention:
        if task.order.group is None:
            return super().choose_answer_time(task)
        return Intention(task.order.shape.timeout)


class OwnerAwareBehaviour(HonestBehaviour):
    """Answers its owner's orders at once, because the owner already has the results.

    The orders of others are answered honestly.
    """

    @override
    def choose_answer_time(self, task: LoopTask) -> Intention:
        return Intention(1) if task.order.owner == ATTACKER else super().choose_answer_time(task)

    @override
    def choose_answer(self, task: LoopTask) -> NodeAnswer:
        if task.order.owner == ATTACKER:
            return NodeAnswer(TRUTH, 0)
        return super().choose_answer(task)


@dataclass(frozen=True, slots=True)
class LeavingBehaviour:
    """Handles tasks like `base_behaviour`, but may leave at events.

    The reactions to events are configured in `reactions`.
    """

    base_behaviour: Behaviour
    reactions: Mapping[NodeEvent, Reaction] = field(default_factory=dict)

    def choose_answer_time(self, task: LoopTask) -> Intention:
        """Return the answer time that the base behaviour chooses.

        The result is an intention.
        """
        return self.base_behaviour.choose_answer_time(task)

    def choose_answer(self, task: LoopTask) -> NodeAnswer:
        """Return the answer that the base behaviour chooses."""
        return self.base_behaviour.choose_answer(task)

    def choose_reaction(self, event: NodeEvent) -> Reaction:
        """Return the configured reaction to an event.

        By default, the node stays.
        """
        return self.reactions.get(event, Reaction.STAY)
