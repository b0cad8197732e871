"""Finds roles and limits with which a single key could do harm, for `contract check`.

The daemon still publishes to such a contract, but an operator who serves others should not use one
(docs/explanation/kickouts.md#power).
"""

from collections.abc import Collection, Iterator
from dataclasses import fields

from oracle.bindings.deployment import DEFAULT_FLOORS
from oracle.bindings.inspection import ContractMismatch
from oracle.bindings.qos_oracle import ContractConfiguration, ContractLimits
from oracle.bindings.timelock import (
    ADMIN_NAME,
    CANCELLER_NAME,
    EXECUTOR_NAME,
    MAX_DELAY,
    MIN_DELAY,
    PROPOSER_NAME,
    TimelockRoles,
    get_code,
    get_timelock_delay,
    load_timelock_code,
)
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.rpc.fanout import PoolView

# The limits that bound the harm of a stolen quorum: some have a minimum, others a maximum.
_MIN_BOUND_LIMITS = ("veto_delay", "kick_rounds")
_MAX_BOUND_LIMITS = ("fall_share", "kick_below", "max_kicks_per_round")
# KickLimits have no floors in the contract, so their bounds are defined here: four times the
# defaults of `contract deploy`. A stolen quorum can kick MAX_BUCKET nodes at once, and
# MAX_DAILY_KICKS nodes each day.
MAX_BUCKET, MAX_DAILY_KICKS = 12, 96
_DAY = 86_400


def find_weaknesses(
    pool_view: PoolView, configuration: ContractConfiguration
) -> list[ContractMismatch]:
    """Return the roles and limits with which a single key or person could do harm immediately.

    Raises:
        TransientError: no endpoint responds.
    """
    return [
        *_find_admin_weaknesses(pool_view, configuration),
        *_find_role_weaknesses(configuration),
        *_find_limit_weaknesses(configuration),
    ]


def find_timelock_weaknesses(
    roles: TimelockRoles, vetoer: Address, expected_proposers: Collection[Address]
) -> list[ContractMismatch]:
    """Return the accounts that have a role of the timelock but should not.

    If `expected_proposers` is empty, any single proposer is accepted.
    """
    proposers = expected_proposers or roles.get_accounts(PROPOSER_NAME)
    allowed_by_role = {
        PROPOSER_NAME: (proposers, "an address in --proposers"),
        # Anyone may execute a call after its delay.
        EXECUTOR_NAME: ([*proposers, ZERO_ADDRESS], "anyone, or a proposer"),
        CANCELLER_NAME: ([*proposers, vetoer], "a proposer or the vetoer"),
        ADMIN_NAME: ([roles.timelock], "only the timelock itself"),
    }
    mismatches = [
        ContractMismatch(f"{role} of the timelock", description, account)
        for role, (allowed, description) in allowed_by_role.items()
        for account in roles.get_accounts(role)
        if account not in allowed
    ]
    if len(proposers) > 1 and not expected_proposers:
        proposer_list = ", ".join(proposers)
        mismatches.append(
            ContractMismatch(
                "proposers of the timelock", "a single one, or --proposers", proposer_list
            )
        )
    if not roles.is_complete:
        missing_since = f"no constructor logs from block {roles.start_block} on (--since)"
        mismatches.append(
            ContractMismatch("roles of the timelock", "all its RoleGranted logs", missing_since)
        )
    return mismatches


def _find_admin_weaknesses(
    pool_view: PoolView, configuration: ContractConfiguration
) -> Iterator[ContractMismatch]:
    if configuration.pending_admin != ZERO_ADDRESS:
        yield ContractMismatch("pending admin", "none", configuration.pending_admin)
    expected = "a timelock"
    code = get_code(pool_view, configuration.admin)
    if code == "0x":
        yield ContractMismatch("admin", expected, f"{configuration.admin}, a single key")
        return
    delay = get_timelock_delay(pool_view, configuration.admin)
    if delay is None:
        yield ContractMismatch(
            "admin", expected, f"{configuration.admin}, a contract without a delay"
        )
    elif code != load_timelock_code():
        # Only the shipped code is known to enforce the delay that it returns.
        shipped = "the shipped TimelockController's"
        yield ContractMismatch(
            "code of the timelock", shipped, f"other code at {configuration.admin}"
        )
    elif not MIN_DELAY <= delay < MAX_DELAY:
        expected_range = f"from {MIN_DELAY} s to less than {MAX_DELAY} s, the longest pause"
        yield ContractMismatch("delay of the timelock", expected_range, f"{delay} s")


def _find_role_weaknesses(configuration: ContractConfiguration) -> Iterator[ContractMismatch]:
    if len(configuration.signers) < 2:  # noqa: PLR2004  a single signer is no quorum
        yield ContractMismatch("signers", "at least 2", str(len(configuration.signers)))
    elif configuration.quorum < 2:  # noqa: PLR2004
        yield ContractMismatch("quorum", "at least 2", str(configuration.quorum))
    for role, holder in (("pauser", configuration.pauser), ("vetoer", configuration.vetoer)):
        if holder == ZERO_ADDRESS:
            yield ContractMismatch(role, "an account that can stop a wrong action", "none")
        elif holder == configuration.admin:
            yield ContractMismatch(role, "not the admin, whose calls are delayed", holder)


def _find_limit_weaknesses(configuration: ContractConfiguration) -> Iterator[ContractMismatch]:
    kick_limits = configuration.kick_limits
    if kick_limits.bucket_most > MAX_BUCKET:
        size = str(kick_limits.bucket_most)
        yield ContractMismatch("kick_limits.bucket_most", f"at most {MAX_BUCKET}", size)
    daily_kicks = kick_limits.bucket_per_frame * _DAY / max(kick_limits.bucket_frame, 1)
    if daily_kicks > MAX_DAILY_KICKS:
        expected = f"at most {MAX_DAILY_KICKS} kickouts a day"
        yield ContractMismatch("kick_limits.bucket_per_frame", expected, f"{daily_kicks:g}")
    for name, limits in (
        ("limits", configuration.contract_status.limits),
        ("floors", configuration.floors),
    ):
        for limit_field in fields(ContractLimits):
            bound, value = (
                getattr(DEFAULT_FLOORS, limit_field.name),
                getattr(limits, limit_field.name),
            )
            if limit_field.name in _MIN_BOUND_LIMITS and value < bound:
                yield ContractMismatch(
                    f"{name}.{limit_field.name}", f"at least {bound}", str(value)
                )
            if limit_field.name in _MAX_BOUND_LIMITS and value > bound:
                yield ContractMismatch(
                    f"{name}.{limit_field.name}", f"at most {bound}", str(value)
                )
