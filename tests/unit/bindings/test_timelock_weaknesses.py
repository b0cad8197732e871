"""Which holders of the timelock's roles are reported as weaknesses."""

from dataclasses import replace

import pytest

from oracle.bindings.power import find_timelock_weaknesses
from oracle.bindings.timelock import RoleHolder, TimelockRoles
from oracle.domain.ids import ZERO_ADDRESS, Address
from tests.unit.cli.test_contract_calls import build_configuration

TIMELOCK, OWNER, VETOER, STRANGER, ORACLE, PAUSER = (
    Address("0x" + digit * 40) for digit in "123456"
)
# The roles after `contract deploy`, once the oracle may cancel for its vetoer.
AS_DEPLOYED = {
    RoleHolder("proposer", OWNER),
    RoleHolder("executor", ZERO_ADDRESS),
    RoleHolder("canceller", OWNER),
    RoleHolder("canceller", ORACLE),
    RoleHolder("admin", TIMELOCK),
}


def find(
    *extra_holders: RoleHolder,
    without: RoleHolder | None = None,
    expected_proposers: tuple[Address, ...] = (),
    is_complete: bool = True,
) -> dict[str, str]:
    """Return the reported value of each weakness, by subject."""
    held = frozenset({*AS_DEPLOYED, *extra_holders} - {without})
    roles = TimelockRoles(TIMELOCK, 7, held, is_complete=is_complete)
    configuration = replace(build_configuration(), admin=TIMELOCK, pauser=PAUSER, vetoer=VETOER)
    return {
        weakness.subject: weakness.actual
        for weakness in find_timelock_weaknesses(roles, ORACLE, configuration, expected_proposers)
    }


def test_deployed_timelock_has_no_weakness():
    assert find() == find(expected_proposers=(OWNER,)) == {}


@pytest.mark.parametrize("role", ["executor", "canceller", "admin"])
def test_extra_role_holder_is_reported(role: str):
    assert find(RoleHolder(role, STRANGER)) == {f"{role} of the timelock": STRANGER}


def test_deployer_that_is_still_admin_is_reported():
    assert find(RoleHolder("admin", OWNER)) == {"admin of the timelock": OWNER}


def test_second_proposer_is_reported_unless_both_proposers_are_expected():
    second = RoleHolder("proposer", STRANGER)
    assert find(second) == {"proposers of the timelock": f"{OWNER}, {STRANGER}"}
    assert find(second, expected_proposers=(OWNER,)) == {"proposer of the timelock": STRANGER}
    assert find(second, expected_proposers=(OWNER, STRANGER)) == {}


def test_unexpected_proposer_is_reported():
    assert find(expected_proposers=(STRANGER,)) == {
        "proposer of the timelock": OWNER,
        "canceller of the timelock": OWNER,
    }


def test_incomplete_role_history_is_reported():
    assert find(is_complete=False) == {
        "roles of the timelock": "no constructor logs from block 7 on (--since)"
    }


def test_vetoer_with_canceller_role_is_reported():
    assert find(RoleHolder("canceller", VETOER)) == {"canceller of the timelock": VETOER}


def test_oracle_without_canceller_role_is_reported():
    missing = RoleHolder("canceller", ORACLE)
    assert find(without=missing) == {"canceller of the timelock": OWNER}


@pytest.mark.parametrize(("role", "holder"), [("pauser", PAUSER), ("vetoer", VETOER)])
def test_proposer_with_another_role_is_reported(role: str, holder: Address):
    assert find(RoleHolder("proposer", holder))[role] == holder
