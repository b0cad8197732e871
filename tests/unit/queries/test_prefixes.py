"""Shown identifiers can be pasted, complete or as a prefix; an ambiguous prefix is rejected."""

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.queries.text.prefixes import find_address, find_node, find_task
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import History, make_node_address, make_task_key

NAMES = [f"node {n}" for n in range(40)]


@pytest.fixture
def filled_store(store):
    """A database with forty nodes and a task."""
    fold = Fold(CRYNUX)
    fold.fold_events(History().joins(*NAMES).creates("1").events)
    with store.transaction() as uow:
        uow.write_changes(fold.drain_changes(), uow.rule_sets.get_or_assign_number(CRYNUX))
    return store


def test_shortest_unique_prefix_resolves_to_node(filled_store):
    addresses = {make_node_address(name) for name in NAMES}
    with filled_store.read_transaction() as uow:
        for address in addresses:
            for digits in range(3, 43):
                begun = address[:digits]
                if sum(candidate.startswith(begun) for candidate in addresses) == 1:
                    assert find_node(uow, begun) == address
                else:
                    with pytest.raises(InputError, match="ambiguous") as refused:
                        find_node(uow, begun)
                    assert begun in str(refused.value)


def test_abbreviated_key_with_dots_is_accepted_in_any_letter_case(filled_store):
    with filled_store.read_transaction() as uow:
        assert find_task(uow, f"{make_task_key('1')[:10]}…") == make_task_key("1")
        assert find_task(uow, f"0x{make_task_key('1')[2:10].upper()}...") == make_task_key("1")
        assert find_task(uow, make_task_key("1")) == make_task_key("1")


@pytest.mark.parametrize("wrong", ["", "0x", "abc", "0xg", "0x" + "1" * 41, "0x1\n", "1"])
def test_malformed_address_prefix_is_rejected(filled_store, wrong):
    with filled_store.read_transaction() as uow, pytest.raises(InputError, match="40 hex digits"):
        find_node(uow, wrong)


def test_unmatched_prefix_is_rejected(filled_store):
    with (
        filled_store.read_transaction() as uow,
        pytest.raises(InputError, match="no known task starts"),
    ):
        find_task(uow, "0x" + "e" * 20)


@given(digits=st.text("0123456789abcdef", min_size=1, max_size=39))
def test_address_prefix_resolves_only_if_it_is_unique(digits):
    addresses = [make_node_address(name) for name in NAMES]
    fitting = [address for address in addresses if address.startswith(f"0x{digits}")]
    if len(fitting) == 1:
        assert find_address(addresses, "sender", f"0x{digits}") == fitting[0]
    else:
        with pytest.raises(InputError):
            find_address(addresses, "sender", f"0x{digits}")


def test_full_address_resolves_even_if_it_is_not_stored():
    full_address = Address("0x" + "a" * 40)
    assert find_address([], "sender", full_address.upper().replace("0X", "0x")) == full_address
