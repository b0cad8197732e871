"""Who may have which role of a timelock, and who is named for having one."""

from dataclasses import replace

import pytest

from oracle.bindings.power import find_roots_timelock_weaknesses, find_timelock_weaknesses
from oracle.bindings.timelock import RoleHolder, TimelockRoles
from oracle.domain.ids import ZERO_ADDRESS, Address
from tests.unit.cli.test_contract_calls import build_configuration

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


# --- the timelock of a QoSRoots ---

ORACLE, PAUSER = (Address("0x" + digit * 40) for digit in "56")
# The vetoer cancels through the oracle.
AS_DEPLOYED_WITH_ROOTS = {
    *(AS_DEPLOYED - {RoleHolder("canceller", VETOER)}),
    RoleHolder("canceller", ORACLE),
}


def find_with_roots(*also: RoleHolder, without: RoleHolder | None = None) -> dict[str, str]:
    """Return what is wrong with the roles of the timelock of a QoSRoots."""
    held = frozenset({*AS_DEPLOYED_WITH_ROOTS, *also} - {without})
    roles = TimelockRoles(TIMELOCK, 7, held, is_complete=True)
    configuration = replace(build_configuration(), admin=TIMELOCK, pauser=PAUSER, vetoer=VETOER)
    return {
        weakness.subject: weakness.actual
        for weakness in find_roots_timelock_weaknesses(roles, ORACLE, configuration, ())
    }


def test_timelock_of_roots_as_deployed_has_no_weakness():
    assert find_with_roots() == {}


def test_vetoer_that_is_a_canceller_beside_the_oracle_is_reported():
    canceller = RoleHolder("canceller", VETOER)
    assert find_with_roots(canceller) == {"canceller of the timelock": VETOER}


def test_oracle_that_is_no_canceller_is_reported():
    missing = RoleHolder("canceller", ORACLE)
    assert find_with_roots(without=missing) == {"canceller of the timelock": OWNER}


@pytest.mark.parametrize(("role", "holder"), [("pauser", PAUSER), ("vetoer", VETOER)])
def test_proposer_with_another_role_is_reported(role: str, holder: Address):
    proposer = RoleHolder("proposer", holder)
    assert find_with_roots(proposer)[role] == holder
