"""OpenZeppelin's TimelockController as the admin of an oracle: its state and its calls.

The timelock delays admin calls, so that anyone whom a call would harm can react in time
(docs/explanation/kickouts.md#power).
"""

from dataclasses import dataclass

from eth_utils.crypto import keccak

from oracle.bindings.codec import build_creation_code, decode_result, encode_call, load_artifact
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import TransientError
from oracle.rpc.fanout import PoolView
from oracle.rpc.rpc_errors import RevertError

TIMELOCK = "TimelockController"
# Delays in seconds, below the longest pause (7 days), so that signers can be replaced in a pause.
DEFAULT_DELAY, MIN_DELAY, MAX_DELAY = 2 * 86_400, 86_400, 7 * 86_400
CANCELLER_ROLE = keccak(text="CANCELLER_ROLE")

_NO_PREDECESSOR = bytes(32)


def build_timelock_code(owner: Address, delay: int = DEFAULT_DELAY) -> str:
    """Return the creation code of a timelock, including the constructor arguments.

    `owner` (a multisig) proposes and cancels calls; anyone may execute a call after `delay`
    seconds. The timelock is its only admin, so changes to the timelock are delayed too.
    """
    return build_creation_code(TIMELOCK, delay, [owner], [ZERO_ADDRESS], ZERO_ADDRESS)


@dataclass(frozen=True, slots=True)
class TimelockedCall:
    """A call that the timelock makes; `salt` distinguishes equal calls."""

    target: Address
    calldata: str
    salt: int = 0

    def encode_schedule(self, delay: int) -> str:
        """Return the calldata with which a proposer schedules the call."""
        return encode_call(TIMELOCK, "schedule", *self._operation, delay)

    def encode_execute(self) -> str:
        """Return the calldata with which anyone executes the call after its delay."""
        return encode_call(TIMELOCK, "execute", *self._operation)

    @property
    def _operation(self) -> tuple[object, ...]:
        calldata_bytes = bytes.fromhex(self.calldata[2:])
        return self.target, 0, calldata_bytes, _NO_PREDECESSOR, self.salt.to_bytes(32)


def get_timelock_delay(pool_view: PoolView, admin: Address) -> int | None:
    """Return the delay of a timelock in seconds, or None if `admin` is not a timelock.

    Raises:
        TransientError: no endpoint responds.
    """
    call = {"to": admin, "data": encode_call(TIMELOCK, "getMinDelay")}
    try:
        result = pool_view.request("eth_call", call, "latest")
        (delay,) = decode_result(TIMELOCK, "getMinDelay", str(result))
    except (RevertError, ValueError, AttributeError):
        return None
    return int(delay)


def get_code(pool_view: PoolView, address: Address) -> str:
    """Return the code of a contract in hex; "0x" for an account without code.

    Raises:
        TransientError: no endpoint responds.
    """
    code = pool_view.request("eth_getCode", address, "latest")
    if not isinstance(code, str):
        raise TransientError(f"{address}: no endpoint returned the account's code")
    return code.lower() or "0x"


def load_timelock_code() -> str:
    """Return the deployed code of the shipped timelock, which has no immutables."""
    return str(load_artifact(TIMELOCK)["deployedBytecode"]).lower()


def build_canceller_grant(timelock: Address, account: Address) -> TimelockedCall:
    """Return the timelock's own call that grants the vetoer the right to cancel."""
    return TimelockedCall(timelock, encode_call(TIMELOCK, "grantRole", CANCELLER_ROLE, account))
