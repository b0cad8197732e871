"""Finds accounts that could do harm with a contract, and how soon, for `contract check`.

The daemon publishes to such a contract all the same, but an operator who serves others should not
run one (docs/explanation/kickouts.md#power).
"""

from collections.abc import Collection, Iterator
from dataclasses import fields

from oracle.bindings.deployment import DEFAULT_FLOORS
from oracle.bindings.inspection import ContractMismatch
from oracle.bindings.qos_oracle import ContractConfiguration, ContractLimits
from oracle.bindings.timelock import (
    LEAST_DELAY,
    MOST_DELAY,
    code_at,
    delay_of,
    shipped_timelock_code,
)
from oracle.bindings.timelock_roles import ADMIN, CANCELS, EXECUTOR, PROPOSER, TimelockRoles
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.rpc.fanout import PoolView

# Limits that bound a stolen quorum, by the tight side of each.
_AT_LEAST = ("veto_delay", "kick_rounds")
_AT_MOST = ("fall_share", "kick_below", "max_kicks_per_round")
# KickLimits have no floors in the contract, so their bounds are here: four times the defaults of
# `contract deploy`. A stolen quorum can kick that many nodes at once, and that many each day.
MAX_BUCKET, MAX_DAILY_KICKS = 12, 96
_DAY = 86_400


def weaknesses(lines: PoolView, found: ContractConfiguration) -> list[ContractMismatch]:
    """Return what a single key or person could do at once.

    Raises:
        TransientError: no endpoint responds.
    """
    return [*_of_admin(lines, found), *_of_roles(found), *_of_limits(found)]


def timelock_weaknesses(
    roles: TimelockRoles, vetoer: Address, named: Collection[Address]
) -> list[ContractMismatch]:
    """Return the accounts that have a role of the timelock but should not.

    `named_proposers`: the expected proposers; without any, a single proposer is accepted.
    """
    proposers = named or roles.of(PROPOSER)
    wanted = {
        PROPOSER: (proposers, "named by --proposers"),
        # Anybody may execute what has waited for the delay.
        EXECUTOR: ([*proposers, ZERO_ADDRESS], "anyone"),
        CANCELS: ([*proposers, vetoer], "a proposer or the vetoer"),
        ADMIN: ([roles.timelock], "itself alone"),
    }
    found = [
        ContractMismatch(f"{role} of the timelock", words, who)
        for role, (known, words) in wanted.items()
        for who in roles.of(role)
        if who not in known
    ]
    if len(proposers) > 1 and not named:
        listed = ", ".join(proposers)
        found.append(ContractMismatch("proposers of the timelock", "one, or --proposers", listed))
    if not roles.is_whole:
        since = f"none of its constructor's from block {roles.since} on (--since)"
        found.append(ContractMismatch("roles of the timelock", "all its RoleGranted logs", since))
    return found


def _of_admin(lines: PoolView, found: ContractConfiguration) -> Iterator[ContractMismatch]:
    if found.pending_admin != ZERO_ADDRESS:
        yield ContractMismatch("pending admin", "nobody", found.pending_admin)
    wanted = "a timelock"
    code = code_at(lines, found.admin)
    if code == "0x":
        yield ContractMismatch("admin", wanted, f"{found.admin}, an account of one key")
        return
    delay = delay_of(lines, found.admin)
    if delay is None:
        yield ContractMismatch("admin", wanted, f"{found.admin}, a contract that tells no delay")
    elif code != shipped_timelock_code():
        # Only the shipped code is known to enforce the delay that it returns.
        shipped = "the shipped TimelockController's"
        yield ContractMismatch("code of the timelock", shipped, f"other code at {found.admin}")
    elif not LEAST_DELAY <= delay < MOST_DELAY:
        between = f"from {LEAST_DELAY} s to less than {MOST_DELAY} s, the longest pause"
        yield ContractMismatch("delay of the timelock", between, f"{delay} s")


def _of_roles(found: ContractConfiguration) -> Iterator[ContractMismatch]:
    if len(found.signers) < 2:  # noqa: PLR2004  one is nobody's quorum
        yield ContractMismatch("signers", "at least 2", str(len(found.signers)))
    elif found.quorum < 2:  # noqa: PLR2004
        yield ContractMismatch("quorum", "at least 2", str(found.quorum))
    for role, holder in (("pauser", found.pauser), ("vetoer", found.vetoer)):
        if holder == ZERO_ADDRESS:
            yield ContractMismatch(role, "somebody who can stop what goes wrong", "nobody")
        elif holder == found.admin:
            yield ContractMismatch(role, "another than the admin, whose acts wait", holder)


def _of_limits(found: ContractConfiguration) -> Iterator[ContractMismatch]:
    kick_limits = found.kick_limits
    if kick_limits.bucket_most > MAX_BUCKET:
        size = str(kick_limits.bucket_most)
        yield ContractMismatch("kick_limits.bucket_most", f"at most {MAX_BUCKET}", size)
    daily = kick_limits.bucket_per_frame * _DAY / max(kick_limits.bucket_frame, 1)
    if daily > MAX_DAILY_KICKS:
        wanted = f"at most {MAX_DAILY_KICKS} kickouts a day"
        yield ContractMismatch("kick_limits.bucket_per_frame", wanted, f"{daily:g}")
    for name, held in (("limits", found.contract_status.limits), ("floors", found.floors)):
        for place in fields(ContractLimits):
            bound, value = getattr(DEFAULT_FLOORS, place.name), getattr(held, place.name)
            if place.name in _AT_LEAST and value < bound:
                yield ContractMismatch(f"{name}.{place.name}", f"at least {bound}", str(value))
            if place.name in _AT_MOST and value > bound:
                yield ContractMismatch(f"{name}.{place.name}", f"at most {bound}", str(value))
