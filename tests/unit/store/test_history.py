"""Appended history is read back for explanations."""

from collections.abc import Iterable

import pytest

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import (
    Anomaly,
    KickoutDue,
    MembershipChange,
    MembershipTransition,
    ReliabilityChange,
    ScoreEntry,
)
from oracle.domain.scoring.reliability import ReliabilityCause
from oracle.domain.state import GroupMember, GroupResult
from oracle.store.database import Store
from tests.unit.store.samples import address, group_key, task_key


def score(node: int, seq: int, block: int = 1, group: int = 1) -> ScoreEntry:
    return ScoreEntry(
        node=address(node),
        seq=seq,
        task=task_key(10 * node + seq),
        group=group_key(group),
        rank=None if seq % 2 else 1,
        elapsed=None if seq % 2 else 10,
        score=seq % 11,
        at=Position(block, 0, node),
        time=100 * block,
    )


def change(node: int, block: int, log: int = 0) -> ReliabilityChange:
    return ReliabilityChange(
        node=address(node),
        at=Position(block, 0, log),
        time=block,
        cause=ReliabilityCause.TIMED_OUT,
        task=task_key(block) if log else None,
        before=10**18,
        after=3 * 10**17,
    )


@pytest.mark.parametrize("blocks", [(), (0,), (3, 4, 9, 9, 30)])
def test_first_block_since_time_excludes_only_older_rows(store: Store, blocks: tuple[int, ...]):
    last_block = 40
    with store.transaction() as uow:
        uow.reliability.append([change(n, block) for n, block in enumerate(blocks)])
        for time in range(last_block + 2):
            # The time of a change is the number of its block.
            older_blocks = [block for block in blocks if block < time]
            first_block = uow.activity.find_first_block_since(time, last_block)
            assert max(older_blocks, default=-1) + 1 == first_block


def result(group: int, nodes: Iterable[int], block: int = 1) -> GroupResult:
    members = tuple(
        GroupMember(task_key(10 * group + place), address(number), place + 1, 5 * place, 10)
        for place, number in enumerate(nodes)
    )
    nobody = GroupMember(task_key(10 * group + 9), None, None, None, None)
    at = Position(block, 0, group)
    return GroupResult(group_key(group), at, 2 * block, (*members, nobody), scored=True)


def test_last_scores_of_node_are_listed_oldest_first(store: Store):
    with store.transaction() as uow:
        uow.scores.append([score(node, seq) for node in (1, 2) for seq in range(1, 61)], 1)
        assert uow.scores.list_for_node(address(1)) == [score(1, seq) for seq in range(11, 61)]
        assert uow.scores.list_for_node(address(2), limit=2) == [score(2, 59), score(2, 60)]
        assert uow.scores.list_for_node(address(1), 2, up_to_seq=30) == [
            score(1, 29),
            score(1, 30),
        ]
        assert uow.scores.list_for_node(address(9)) == []


def test_scores_of_a_node_at_an_earlier_block_are_returned(store: Store):
    with store.transaction() as uow:
        uow.scores.append([score(1, seq, block=10 * seq) for seq in range(1, 6)], 1)
        assert uow.scores.list_for_node_up_to_block(address(1), 29, limit=9) == [
            score(1, 1, block=10),
            score(1, 2, block=20),
        ]


def test_scores_up_to_a_position_include_that_position(store: Store):
    positions = [Position(9, 1, 4), Position(9, 1, 4, 1), Position(9, 2, 0), Position(10, 0, 0)]
    scores = [score(1, seq)._replace(at=at) for seq, at in enumerate(positions, 1)]
    with store.transaction() as uow:
        uow.scores.append([*scores, score(2, 1)._replace(at=positions[0])], 1)
        for count, at in enumerate(positions, 1):
            assert (
                uow.scores.list_for_node_up_to_position(address(1), at, limit=9) == scores[:count]
            )
        assert uow.scores.list_for_node_up_to_position(address(1), Position(9, 3, 0), 1) == [
            scores[2]
        ]
        assert uow.scores.list_for_node_up_to_position(address(1), Position(9, 0, 9), 9) == []


def test_reliability_changes_are_listed_oldest_first(store: Store):
    changes = [change(1, 5), change(1, 5, 1), change(1, 9), change(2, 9)]
    with store.transaction() as uow:
        uow.reliability.append(changes)
        assert uow.reliability.list_for_node(address(1)) == changes[:3]
        assert uow.reliability.list_for_node(address(1), limit=1) == [change(1, 9)]
        assert uow.reliability.list_for_node(address(1), up_to_block=5) == changes[:2]


def test_reliability_changes_twice_at_one_position_are_both_stored(store: Store):
    with store.transaction() as uow:
        uow.reliability.append([change(1, 5), change(1, 5)])
        assert uow.reliability.list_for_node(address(1)) == [change(1, 5), change(1, 5)]


def turn(block: int, transition: MembershipTransition, node: int = 1) -> MembershipChange:
    return MembershipChange(address(node), Position(block, 0, 0), 10 * block, transition)


def test_pending_request_is_not_an_effective_membership_change(store: Store):
    joined = turn(1, MembershipTransition.JOINED)
    quit_request = turn(4, MembershipTransition.QUIT_ASKED)
    paused = turn(3, MembershipTransition.PAUSED)
    second_node_quit = turn(5, MembershipTransition.QUIT, node=2)
    with store.transaction() as uow:
        turns = [
            joined,
            turn(2, MembershipTransition.PAUSE_ASKED),
            paused,
            quit_request,
            second_node_quit,
        ]
        uow.memberships.append(turns)
        assert uow.memberships.list_for_node(address(1)) == turns[:4]
        assert uow.memberships.find_effective_change(address(1)) == paused
        assert uow.memberships.find_effective_change(address(1), up_to_block=2) == joined
        assert uow.memberships.find_effective_change(address(3)) is None


def test_anomalies_at_the_same_position_keep_their_order(store: Store):
    at = Position(3, 0, -1)
    broken = [Anomaly(at, 6, rule, "group_validated") for rule in ("unseen", "unseen", "again")]
    later = Anomaly(Position(4, 0, 0), 8, "unseen", "task_started")
    with store.transaction() as uow:
        uow.anomalies.append([*broken, later])
        assert uow.anomalies.list_newest() == [*broken, later]
        assert uow.anomalies.list_newest(2) == [broken[2], later]
        assert uow.anomalies.count() == 4


def test_results_are_returned_by_group(store: Store):
    with store.transaction() as uow:
        uow.results.append([result(1, [1, 2]), result(2, [1]), result(1, [3], block=9)])
        assert uow.results.list_for_group(group_key(1)) == [
            result(1, [1, 2]),
            result(1, [3], block=9),
        ]
        assert uow.results.list_for_group(group_key(7)) == []
        assert uow.results.count() == 3


def test_last_version_of_a_kickout_interval_is_stored(store: Store):
    opened = Position(5, 0, 1)
    closed = Position(7, 0, 2)
    still = KickoutDue(address(2), Position(3, 0, 0), None)
    with store.transaction() as uow:
        uow.kickouts.save_intervals([KickoutDue(address(1), opened, None), still])
        assert uow.kickouts.list_open() == [still, KickoutDue(address(1), opened, None)]
        uow.kickouts.save_intervals(
            [KickoutDue(address(1), opened, None), KickoutDue(address(1), opened, closed)]
        )
        assert uow.kickouts.list_open() == [still]
        assert uow.kickouts.list_for_node(address(1)) == [KickoutDue(address(1), opened, closed)]


def test_ended_tasks_are_counted_by_score_or_reliability_change(store: Store):
    with store.transaction() as uow:
        uow.scores.append([score(1, 1), score(2, 1), score(2, 2, block=2)], rule_set=1)
        uow.reliability.append(
            [
                # Of a task that is scored as well, of one that is not, and of a join.
                change(1, 1, log=1)._replace(task=score(1, 1).task),
                change(3, 1, log=2),
                change(4, 1),
            ]
        )
    with store.read_transaction() as uow:
        assert uow.activity.count_ended_tasks_and_nodes(1, 1) == (3, 3)
        assert uow.activity.count_ended_tasks_and_nodes(1, 2) == (4, 3)
        assert uow.activity.count_ended_tasks_and_nodes(3, 9) == (0, 0)
