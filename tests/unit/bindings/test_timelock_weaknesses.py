"""Who may have which role of a timelock, and who is named for having one."""

import pytest

from oracle.bindings.power import find_timelock_weaknesses
from oracle.bindings.timelock_roles import RoleHolder, TimelockRoles
from oracle.domain.ids import ZERO_ADDRESS, Address

TIMELOCK, OWNER, VETOER, STRANGER = (Address("0x" + digit * 40) for digit in "1234")
# As `contract deploy` makes it, once its vetoer may cancel.
AS_DEPLOYED = {
    RoleHolder("proposer", OWNER),
    RoleHolder("executor", ZERO_ADDRESS),
    RoleHolder("canceller", OWNER),
    RoleHolder("canceller", VETOER),
    RoleHolder("admin", TIMELOCK),
}


def found(*also: RoleHolder, named: tuple[Address, ...] = (), is_whole: bool = True):
    """What is wrong with whom else."""
    held = frozenset({*AS_DEPLOYED, *also})
    roles = TimelockRoles(TIMELOCK, 7, held, is_complete=is_whole)
    return {one.subject: one.actual for one in find_timelock_weaknesses(roles, VETOER, named)}


def test_a_timelock_as_it_is_deployed_is_as_it_should_be():
    assert found() == found(named=(OWNER,)) == {}


@pytest.mark.parametrize("role", ["executor", "canceller", "admin"])
def test_whoever_else_has_a_role_is_named(role: str):
    assert found(RoleHolder(role, STRANGER)) == {f"{role} of the timelock": STRANGER}


def test_who_deployed_it_is_not_to_be_its_admin_still():
    assert found(RoleHolder("admin", OWNER)) == {"admin of the timelock": OWNER}


def test_of_two_proposers_one_is_a_stranger_unless_both_are_named():
    second = RoleHolder("proposer", STRANGER)
    assert found(second) == {"proposers of the timelock": f"{OWNER}, {STRANGER}"}
    assert found(second, named=(OWNER,)) == {"proposer of the timelock": STRANGER}
    assert found(second, named=(OWNER, STRANGER)) == {}


def test_one_proposer_who_is_not_the_one_named_is_a_stranger():
    assert found(named=(STRANGER,)) == {
        "proposer of the timelock": OWNER,
        "canceller of the timelock": OWNER,
    }


def test_roles_of_which_the_beginning_is_missing_are_not_believed():
    assert found(is_whole=False) == {
        "roles of the timelock": "none of its constructor's from block 7 on (--since)"
    }
