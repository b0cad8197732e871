"""OpenZeppelin's TimelockController, which administers an oracle.

The timelock delays admin calls, so that anyone whom a call would harm can react in time
(docs/explanation/kickouts.md#power). The contract has no list of the accounts that may propose,
execute or cancel calls, or grant its roles. Every account in its RoleGranted logs is checked with
`hasRole`, which returns the current state after any revocation or renunciation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from oracle.bindings.codec import build_creation_code, decode_result, encode_call, load_artifact
from oracle.chain.decode.abi import SELECTOR_DIGITS
from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import ZERO_ADDRESS, Address, Hash
from oracle.errors import TransientError
from oracle.rpc.client import Json
from oracle.rpc.fanout import EndpointCaller, PoolView, expect_response_format, parse_quantity
from oracle.rpc.rpc_errors import CallRefusedError, RevertError

TIMELOCK = "TimelockController"
# Delays in seconds. The default is shorter than the longest pause (7 days), so that signers can be
# replaced during a pause.
DEFAULT_DELAY = 2 * 86_400
MIN_DELAY = 86_400
MAX_DELAY = 7 * 86_400
CANCELLER_ROLE = keccak(b"CANCELLER_ROLE")

PROPOSER_NAME = "proposer"
EXECUTOR_NAME = "executor"
CANCELLER_NAME = "canceller"
ADMIN_NAME = "admin"
ROLE_ID_BY_NAME: Mapping[str, bytes] = {
    PROPOSER_NAME: keccak(b"PROPOSER_ROLE"),
    EXECUTOR_NAME: keccak(b"EXECUTOR_ROLE"),
    CANCELLER_NAME: CANCELLER_ROLE,
    ADMIN_NAME: bytes(32),
}
_ROLE_GRANTED_TOPIC = "0x" + keccak(b"RoleGranted(bytes32,address,address)").hex()
# Maximum number of blocks per request. The number is halved if an endpoint refuses a request.
_MAX_BLOCKS = 100_000
_NO_PREDECESSOR = bytes(32)


def build_timelock_creation_code(owner: Address, delay: int = DEFAULT_DELAY) -> str:
    """Build the creation code of a timelock, including the constructor arguments.

    `owner` (a multisig) proposes and cancels calls; anyone may execute a call after `delay`
    seconds. The timelock is its own only admin, so changes to the timelock are delayed, too.
    """
    return build_creation_code(TIMELOCK, delay, [owner], [ZERO_ADDRESS], ZERO_ADDRESS)


@dataclass(frozen=True, slots=True)
class TimelockedCall:
    """A call that the timelock makes.

    `salt` distinguishes equal calls.
    """

    target: Address
    calldata: str
    salt: int = 0

    def encode_schedule_call(self, delay: int) -> str:
        """Encode the call with which a proposer schedules this call."""
        return encode_call(TIMELOCK, "schedule", *self._operation_arguments, delay)

    def encode_execute_call(self) -> str:
        """Encode the call with which anyone executes this call after its delay."""
        return encode_call(TIMELOCK, "execute", *self._operation_arguments)

    @property
    def operation_id(self) -> Hash:
        """Return the timelock's id of the scheduled call, needed for cancelling it."""
        encoded_operation = encode_call(TIMELOCK, "hashOperation", *self._operation_arguments)
        return Hash("0x" + keccak(bytes.fromhex(encoded_operation[SELECTOR_DIGITS:])).hex())

    @property
    def _operation_arguments(self) -> tuple[object, ...]:
        calldata_bytes = bytes.fromhex(self.calldata[2:])
        return self.target, 0, calldata_bytes, _NO_PREDECESSOR, self.salt.to_bytes(32)


def fetch_timelock_delay(pool_view: PoolView, admin: Address) -> int | None:
    """Fetch the delay of a timelock in seconds, or None if `admin` is not a timelock.

    Raises:
        TransientError: no endpoint responds.
    """
    call = {"to": admin, "data": encode_call(TIMELOCK, "getMinDelay")}
    try:
        result_hex = pool_view.request("eth_call", call, "latest")
        (delay,) = decode_result(TIMELOCK, "getMinDelay", str(result_hex))
    except (RevertError, ValueError, AttributeError):
        return None
    return int(delay)


def fetch_account_code(pool_view: PoolView, address: Address) -> str:
    """Fetch the `0x` code of an account, which is "0x" if there is none.

    Raises:
        TransientError: no endpoint responds.
    """
    code = pool_view.request("eth_getCode", address, "latest")
    if not isinstance(code, str):
        raise TransientError(f"{address}: no endpoint returned the account's code")
    return code.lower() or "0x"


def load_timelock_code() -> str:
    """Return the deployed code of the shipped timelock.

    The code has no immutables.
    """
    return str(load_artifact(TIMELOCK)["deployedBytecode"]).lower()


def build_grant_canceller_call(timelock: Address, account: Address) -> TimelockedCall:
    """Build the call by which the timelock lets an account cancel operations."""
    return TimelockedCall(timelock, encode_call(TIMELOCK, "grantRole", CANCELLER_ROLE, account))


class RoleHolder(NamedTuple):
    """An account with a role from ROLE_ID_BY_NAME.

    The zero account means anyone.
    """

    role: str
    account: Address


@dataclass(frozen=True, slots=True)
class TimelockRoles:
    """The holders of a timelock's roles, according to its logs from `start_block` on.

    `is_complete` is whether the logs include those of the constructor, so that no holder is
    missing.
    """

    timelock: Address
    start_block: int
    holders: frozenset[RoleHolder]
    is_complete: bool

    def get_accounts_with_role(self, role: str) -> list[Address]:
        return sorted(holder.account for holder in self.holders if holder.role == role)

    def format_line(self) -> str:
        """Return the roles and their holders in one line."""
        name_by_account = {ZERO_ADDRESS: "anyone", self.timelock: "itself"}
        role_texts = []
        for role in ROLE_ID_BY_NAME:
            account_names = [
                name_by_account.get(account, account)
                for account in self.get_accounts_with_role(role)
            ]
            role_texts.append(f"{role} {', '.join(account_names) or 'nobody'}")
        return f"roles of the timelock: {'; '.join(role_texts)}"


def fetch_timelock_roles(
    pool_view: PoolView, timelock: Address, start_block: int
) -> TimelockRoles:
    """Fetch all holders of timelock roles that any endpoint reports.

    All endpoints are queried, because one may return logs that another lacks. An endpoint that
    lags behind may still report a revoked role.

    Raises:
        TransientError: no endpoint responds.
    """
    granted_by_endpoint = pool_view.read_from_each(
        lambda endpoint: _fetch_granted_roles(endpoint, timelock, start_block)
    )
    granted_holders = frozenset(holder for _, holders in granted_by_endpoint for holder in holders)
    held_by_endpoint = pool_view.read_from_each(
        lambda endpoint: _fetch_current_role_holders(endpoint, timelock, granted_holders)
    )
    current_holders = frozenset(holder for _, holders in held_by_endpoint for holder in holders)
    # Only the constructor makes the timelock its own admin. If the log of this grant was found,
    # the logs reach back to the deployment.
    return TimelockRoles(
        timelock, start_block, current_holders, RoleHolder(ADMIN_NAME, timelock) in granted_holders
    )


def _fetch_granted_roles(
    endpoint: EndpointCaller, timelock: Address, start_block: int
) -> set[RoleHolder]:
    """Fetch all roles granted since `start_block`, including revoked roles."""
    with expect_response_format("the number of the newest block"):
        head_number = parse_quantity(endpoint.request("eth_blockNumber"))
    role_holders: set[RoleHolder] = set()
    first_block, max_blocks = start_block, _MAX_BLOCKS
    while first_block <= head_number:
        last_block = min(head_number, first_block + max_blocks - 1)
        block_range = {"fromBlock": hex(first_block), "toBlock": hex(last_block)}
        try:
            logs = endpoint.request(
                "eth_getLogs",
                {**block_range, "address": timelock, "topics": [_ROLE_GRANTED_TOPIC]},
            )
        except CallRefusedError as error:
            if first_block == last_block or error.is_rate_limited:
                raise
            max_blocks = (last_block - first_block + 1) // 2
            continue
        with expect_response_format("logs of the timelock"):
            role_holders |= {
                holder for log in logs if (holder := _decode_role_holder(log)) is not None
            }
        first_block = last_block + 1
    return role_holders


def _decode_role_holder(log: Json) -> RoleHolder | None:
    """Decode the account and the role from a RoleGranted log.

    The result is None if the role is unknown.
    """
    _, role, account, _ = log["topics"]
    name = next(
        (name for name, role_id in ROLE_ID_BY_NAME.items() if role_id.hex() == role[2:].lower()),
        None,
    )
    return None if name is None else RoleHolder(name, Address("0x" + account[-40:].lower()))


def _fetch_current_role_holders(
    endpoint: EndpointCaller, timelock: Address, granted_holders: Iterable[RoleHolder]
) -> list[RoleHolder]:
    """Return the holders that still have their role, using one `hasRole` call for each."""
    return [holder for holder in granted_holders if _has_role(endpoint, timelock, holder)]


def _has_role(endpoint: EndpointCaller, timelock: Address, holder: RoleHolder) -> bool:
    calldata = encode_call(TIMELOCK, "hasRole", ROLE_ID_BY_NAME[holder.role], holder.account)
    result_hex = endpoint.request("eth_call", {"to": timelock, "data": calldata}, "latest")
    with expect_response_format("the result of hasRole"):
        return bool(decode_result(TIMELOCK, "hasRole", result_hex)[0])
