"""Who may have which role of a timelock, and who is named for having one."""

import pytest

from oracle.bindings.power import find_timelock_weaknesses
from oracle.bindings.timelock import RoleHolder, TimelockRoles
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
    return {
        weakness.subject: weakness.actual
        for weakness in find_timelock_weaknesses(roles, VETOER, named)
    }


def test_timelock_as_deployed_has_no_weakness():
    assert found() == found(named=(OWNER,)) == {}


@pytest.mark.parametrize("role", ["executor", "canceller", "admin"])
def test_extra_role_holder_is_reported(role: str):
    assert found(RoleHolder(role, STRANGER)) == {f"{role} of the timelock": STRANGER}


def test_deployer_that_remains_admin_is_reported():
    assert found(RoleHolder("admin", OWNER)) == {"admin of the timelock": OWNER}


def test_second_proposer_is_reported_unless_both_proposers_are_named():
    second = RoleHolder("proposer", STRANGER)
    assert found(second) == {"proposers of the timelock": f"{OWNER}, {STRANGER}"}
    assert found(second, named=(OWNER,)) == {"proposer of the timelock": STRANGER}
    assert found(second, named=(OWNER, STRANGER)) == {}


def test_proposer_that_is_not_named_is_reported():
    assert found(named=(STRANGER,)) == {
        "proposer of the timelock": OWNER,
        "canceller of the timelock": OWNER,
    }


def test_incomplete_role_history_is_reported():
    assert found(is_whole=False) == {
        "roles of the timelock": "no constructor logs from block 7 on (--since)"
    }
