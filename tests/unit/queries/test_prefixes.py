"""What was shown can be pasted: whole, or by how it begins; what fits several is refused."""

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.queries.text.prefixes import address_among, node_named, task_named
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import History, node, task

NAMES = [f"node {n}" for n in range(40)]


@pytest.fixture
def known(store):
    """A database with forty nodes and a task."""
    fold = Fold(CRYNUX)
    fold.many(History().joins(*NAMES).creates("1").events)
    with store.transaction() as uow:
        uow.changes(fold.drain(), uow.rule_sets.number_of(CRYNUX))
    return store


def test_every_node_is_found_by_the_least_beginning_that_nobody_shares(known):
    addresses = {node(name) for name in NAMES}
    with known.reading() as uow:
        for address in addresses:
            for digits in range(3, 43):
                begun = address[:digits]
                if sum(other.startswith(begun) for other in addresses) == 1:
                    assert node_named(uow, begun) == address
                else:
                    with pytest.raises(InputError, match="ambiguous") as refused:
                        node_named(uow, begun)
                    assert begun in str(refused.value)


def test_a_shortened_name_may_be_pasted_with_its_dots_and_in_any_case(known):
    with known.reading() as uow:
        assert task_named(uow, f"{task('1')[:10]}…") == task("1")
        assert task_named(uow, f"0x{task('1')[2:10].upper()}...") == task("1")
        assert task_named(uow, task("1")) == task("1")


@pytest.mark.parametrize("wrong", ["", "0x", "abc", "0xg", "0x" + "1" * 41, "0x1\n", "1"])
def test_what_is_no_beginning_of_an_address_is_refused(known, wrong):
    with known.reading() as uow, pytest.raises(InputError, match="40 hex digits"):
        node_named(uow, wrong)


def test_a_beginning_that_nobody_has_is_refused(known):
    with known.reading() as uow, pytest.raises(InputError, match="begins so is known"):
        task_named(uow, "0x" + "e" * 20)


@given(digits=st.text("0123456789abcdef", min_size=1, max_size=39))
def test_of_a_few_only_the_one_that_begins_so_is_taken(digits):
    known = [node(name) for name in NAMES]
    fitting = [one for one in known if one.startswith(f"0x{digits}")]
    if len(fitting) == 1:
        assert address_among(known, "sender", f"0x{digits}") == fitting[0]
    else:
        with pytest.raises(InputError):
            address_among(known, "sender", f"0x{digits}")


def test_a_whole_address_needs_nobody_to_know_it():
    whole = Address("0x" + "a" * 40)
    assert address_among([], "sender", whole.upper().replace("0X", "0x")) == whole
