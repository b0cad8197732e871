"""Nodes, tasks, groups: all folded values are loaded as they were saved."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from sqlalchemy.exc import IntegrityError

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import MembershipChange, MembershipTransition
from oracle.domain.state import Membership, Node, OpenGroup, Task
from oracle.store import bulk
from oracle.store.database import Store
from oracle.store.encoding import escape_nul, unescape_nul
from tests.support.examples import examples
from tests.unit.store import samples
from tests.unit.store.samples import address, group_key, node, task, task_key

# All examples share a database: each overwrites the rows of the previous one.
quick = examples(30)
UNIT = 10**18


@pytest.fixture(params=["few", "many"])
def amount(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write few rows, and many rows, because the statements differ."""
    if request.param == "many":
        monkeypatch.setattr(bulk, "_COPY_FROM", 1)


@quick
@pytest.mark.usefixtures("amount")
@given(rows=st.lists(samples.nodes, max_size=4, unique_by=lambda saved_task: saved_task.address))
def test_nodes_round_trip(store: Store, rows: list[Node]):
    with store.transaction() as uow:
        uow.nodes.save(rows)
        node_by_address = uow.nodes.get_many(row.address for row in rows)
    assert node_by_address == {row.address: row for row in rows}


@quick
@pytest.mark.usefixtures("amount")
@given(rows=st.lists(samples.tasks, max_size=4, unique_by=lambda saved_task: saved_task.key))
def test_tasks_round_trip(store: Store, rows: list[Task]):
    with store.transaction() as uow:
        uow.tasks.save(rows)
        task_by_key = uow.tasks.get_many(row.key for row in rows)
    assert task_by_key == {row.key: row for row in rows}


@given(text=samples.words)
def test_chain_text_is_stored_without_nul_and_round_trips(text: str):
    stored = escape_nul(text)
    assert stored is not None
    assert "\x00" not in stored
    assert unescape_nul(stored) == text


def test_oversized_number_is_stored_as_maximum(store: Store):
    with store.transaction() as uow:
        uow.tasks.save([task(1, size=2**256 - 1, timeout=2**63)])
        stored_task = uow.tasks.get_many([task_key(1)])[task_key(1)]
    assert stored_task.size == stored_task.timeout == 2**63 - 1


def test_second_save_replaces_row(store: Store):
    with store.transaction() as uow:
        uow.nodes.save([node(1), node(2)])
        uow.nodes.save([node(2, pool=b"\x0a", membership=Membership.MEMBER)])
        assert list(uow.nodes.iterate_all()) == [
            node(1),
            node(2, pool=b"\x0a", membership=Membership.MEMBER),
        ]


def test_large_save_replaces_only_rows_with_the_same_keys(store: Store):
    with store.transaction() as uow:
        uow.tasks.save([task(number, size=1) for number in range(100)])
        uow.tasks.save([task(number, size=2) for number in range(60, 160)])
        task_by_key = uow.tasks.get_many(map(task_key, range(200)))
    assert [task_by_key[key].size for key in sorted(task_by_key)] == [1] * 60 + [2] * 100


@pytest.mark.usefixtures("amount")
def test_duplicate_membership_position_is_rejected(store: Store):
    turns = [MembershipChange(address(1), Position(1, 0, 0, 0), 5, MembershipTransition.JOINED)]
    with store.transaction() as uow:
        uow.memberships.append(turns)
    with pytest.raises(IntegrityError), store.transaction() as uow:
        uow.memberships.append(turns)


def test_unknown_keys_are_omitted(store: Store):
    with store.transaction() as uow:
        uow.tasks.save([task(1)])
        assert uow.tasks.get_many([task_key(1), task_key(2)]) == {task_key(1): task(1)}
        assert uow.nodes.get_many([]) == {}


@pytest.mark.usefixtures("amount")
def test_open_groups_round_trip(store: Store):
    open_group = OpenGroup(group_key(1), (task_key(3), task_key(1)), closed=False)
    with store.transaction() as uow:
        uow.groups.save([open_group, OpenGroup(group_key(2), (), closed=False)])
        uow.groups.save([replace(open_group, closed=True)])
        assert uow.groups.get_many([group_key(1), group_key(9)]) == {
            group_key(1): replace(open_group, closed=True)
        }


@pytest.mark.parametrize("number", [1, 49, 50, 51, 1200])
def test_save_of_any_size_replaces_existing_rows_and_adds_new_ones(store: Store, number: int):
    before = [task(n, created_at=Position(n, 0, 1)) for n in range(0, number, 2)]
    after = [task(n, size=n, node=address(n)) for n in range(number)]
    with store.transaction() as uow:
        for row in before:
            uow.tasks.save([row])
        uow.tasks.save(after)
        task_by_key = uow.tasks.get_many(row.key for row in after)
    assert task_by_key == {row.key: row for row in after}


def test_nodes_are_paged_by_address(store: Store):
    with store.transaction() as uow:
        uow.nodes.save([node(number) for number in (5, 1, 9, 3)])
        first = uow.nodes.list_page(None, 2)
        assert [row.address for row in first] == [address(1), address(3)]
        assert uow.nodes.list_page(first[-1].address, 9) == [node(5), node(9)]


def test_all_nodes_are_read_over_several_pages(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("oracle.store.state.node_repository._PAGE_ROWS", 3)
    with store.transaction() as uow:
        uow.nodes.save([node(number) for number in range(7)])
        assert list(uow.nodes.iterate_all()) == [node(number) for number in range(7)]


def test_only_nodes_changed_above_a_block_are_returned(store: Store):
    with store.transaction() as uow:
        uow.nodes.save([node(number, changed_at=4 - number) for number in range(5)])
        # By address.
        assert [row.changed_at for row in uow.nodes.iterate_changed_since(2)] == [4, 3]


def test_leaf_of_recovering_node_may_change_until_recovery_ends(store: Store):
    healing = node(1, base=UNIT - 1, since=1000)
    recovered_node = node(2, base=UNIT, since=1000)
    with store.transaction() as uow:
        uow.nodes.save([healing, recovered_node])
        changed_addresses = [
            [
                leaf_row[1]
                for rows in uow.nodes.iterate_changed_leaf_rows(2**62, time, node_count=2**31)
                for leaf_row in rows
            ]
            for time in (1000 + 2**21 - 1, 1000 + 2**21)
        ]
        assert changed_addresses == [[bytes.fromhex(healing.address[2:])], []]


def test_nodes_are_counted_by_membership_and_activity(store: Store):
    member = Membership.MEMBER
    with store.transaction() as uow:
        uow.nodes.save([node(1), node(2, membership=member), node(3, membership=member)])
        uow.nodes.save([node(4, membership=member, running=2, paused=True)])
        assert uow.nodes.count_by_state() == {
            (Membership.UNKNOWN, False, False): 1,
            (member, False, False): 2,
            (member, True, True): 1,
        }
