"""Accounts that may propose, execute and cancel at a timelock, and that grant these roles.

The contract has no list of holders. Every account in its RoleGranted logs is checked by `hasRole`,
which shows the current state after any revocation or renunciation
(docs/explanation/kickouts.md#power).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from eth_utils.crypto import keccak

from oracle.bindings.codec import call_input, call_output
from oracle.bindings.timelock import CANCELLER, TIMELOCK
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.rpc.client import Json
from oracle.rpc.fanout import EndpointCaller, PoolView, number_of, understood
from oracle.rpc.rpc_errors import CallRefusedError

PROPOSER, EXECUTOR, CANCELS, ADMIN = "proposer", "executor", "canceller", "admin"
ROLES: Mapping[str, bytes] = {
    PROPOSER: keccak(text="PROPOSER_ROLE"),
    EXECUTOR: keccak(text="EXECUTOR_ROLE"),
    CANCELS: CANCELLER,
    ADMIN: bytes(32),
}
_GRANTED = "0x" + keccak(text="RoleGranted(bytes32,address,address)").hex()
# Blocks per request; halved if an endpoint refuses so many.
_MOST_BLOCKS = 100_000


class RoleHolder(NamedTuple):
    """An account with a role, one of ROLE_ID_BY_NAME; the zero account means anybody."""

    role: str
    account: Address


@dataclass(frozen=True, slots=True)
class TimelockRoles:
    """Holders of a timelock's roles, according to its logs from block `start_block` on.

    `is_complete`: the logs begin with those of the constructor, so no holder is missing.
    """

    timelock: Address
    since: int
    held: frozenset[RoleHolder]
    is_whole: bool

    def of(self, role: str) -> list[Address]:
        """Return the accounts that have a role."""
        return sorted(one.account for one in self.held if one.role == role)

    def line(self) -> str:
        """Return the roles and their holders in one line."""
        names = {ZERO_ADDRESS: "anyone", self.timelock: "itself"}
        told = (
            f"{role} {', '.join(names.get(who, who) for who in self.of(role)) or 'nobody'}"
            for role in ROLES
        )
        return f"the timelock's {'; '.join(told)}"


def timelock_roles(lines: PoolView, timelock: Address, since: int) -> TimelockRoles:
    """Return the holders of the timelock's roles, as reported by any endpoint.

    Logs that one endpoint lacks another may return. An endpoint that lags behind may still report
    a revoked role, until it has caught up.

    Raises:
        TransientError: no endpoint responds.
    """
    told = lines.each(lambda line: _granted(line, timelock, since))
    granted = frozenset(one for _, each in told for one in each)
    said = lines.each(lambda line: _held(line, timelock, granted))
    held = frozenset(one for _, each in said for one in each)
    # The constructor makes the timelock its own admin, exactly once.
    return TimelockRoles(timelock, since, held, RoleHolder(ADMIN, timelock) in granted)


def _granted(line: EndpointCaller, timelock: Address, since: int) -> set[RoleHolder]:
    """Return every role that was ever granted, from a block on."""
    with understood("the number of its newest block"):
        head = number_of(line.ask("eth_blockNumber"))
    found: set[RoleHolder] = set()
    first, blocks = since, _MOST_BLOCKS
    while first <= head:
        last = min(head, first + blocks - 1)
        span = {"fromBlock": hex(first), "toBlock": hex(last)}
        try:
            logs = line.ask("eth_getLogs", {**span, "address": timelock, "topics": [_GRANTED]})
        except CallRefusedError as error:
            if first == last or error.is_rate_limited:
                raise
            blocks = (last - first + 1) // 2
            continue
        with understood("logs of the timelock"):
            found |= {one for log in logs if (one := _holder_in(log)) is not None}
        first = last + 1
    return found


def _holder_in(log: Json) -> RoleHolder | None:
    """Return the account and role of a log, or None if the role is not a timelock's."""
    _, role, account, _ = log["topics"]
    name = next((name for name, raw in ROLES.items() if raw.hex() == role[2:].lower()), None)
    return None if name is None else RoleHolder(name, Address("0x" + account[-40:].lower()))


def _held(
    line: EndpointCaller, timelock: Address, granted: Iterable[RoleHolder]
) -> list[RoleHolder]:
    """Return the holders that still have their role."""
    return [one for one in granted if _has(line, timelock, one)]


def _has(line: EndpointCaller, timelock: Address, one: RoleHolder) -> bool:
    data = call_input(TIMELOCK, "hasRole", ROLES[one.role], one.account)
    answer = line.ask("eth_call", {"to": timelock, "data": data}, "latest")
    with understood("whether somebody has a role"):
        return bool(call_output(TIMELOCK, "hasRole", answer)[0])
