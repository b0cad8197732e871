"""OpenZeppelin's TimelockController as the admin of an oracle: its state and its calls.

Admin calls are delayed in it, so that anyone they would harm can react in advance
(docs/explanation/kickouts.md#power).
"""

from dataclasses import dataclass

from eth_utils.crypto import keccak

from oracle.bindings.codec import call_input, call_output, contract_artifact, creation_code
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import TransientError
from oracle.rpc.fanout import PoolView
from oracle.rpc.rpc_errors import RevertError

TIMELOCK = "TimelockController"
# Seconds. Below the longest pause (7 days), so that a rotation of signers can end within one.
DEFAULT_DELAY, LEAST_DELAY, MOST_DELAY = 2 * 86_400, 86_400, 7 * 86_400
CANCELLER = keccak(text="CANCELLER_ROLE")

_NO_PREDECESSOR = bytes(32)


def timelock_code(owner: Address, delay: int = DEFAULT_DELAY) -> str:
    """Return the creation code of a timelock, including the constructor arguments.

    `owner` (a multisig) proposes and cancels; anyone may execute after `delay` seconds. The
    timelock has no other admin: any change to it goes through itself.
    """
    return creation_code(TIMELOCK, delay, [owner], [ZERO_ADDRESS], ZERO_ADDRESS)


@dataclass(frozen=True, slots=True)
class TimelockedCall:
    """A call that the timelock makes; `salt` distinguishes equal calls."""

    to: Address
    calldata: str
    salt: int = 0

    def schedule(self, delay: int) -> str:
        """Return the calldata by which a proposer schedules the call."""
        return call_input(TIMELOCK, "schedule", *self._operation, delay)

    def execute(self) -> str:
        """Return the calldata by which anyone executes the call after its delay."""
        return call_input(TIMELOCK, "execute", *self._operation)

    @property
    def _operation(self) -> tuple[object, ...]:
        raw = bytes.fromhex(self.calldata[2:])
        return self.to, 0, raw, _NO_PREDECESSOR, self.salt.to_bytes(32)


def delay_of(lines: PoolView, admin: Address) -> int | None:
    """Return the delay of a timelock in seconds, or None if `admin` is not a timelock.

    Raises:
        TransientError: no endpoint responds.
    """
    asked = {"to": admin, "data": call_input(TIMELOCK, "getMinDelay")}
    try:
        answer = lines.ask("eth_call", asked, "latest")
        (delay,) = call_output(TIMELOCK, "getMinDelay", str(answer))
    except (RevertError, ValueError, AttributeError):
        return None
    return int(delay)


def code_at(lines: PoolView, address: Address) -> str:
    """Return the code of a contract in hex; "0x" for an account without code.

    Raises:
        TransientError: no endpoint responds.
    """
    code = lines.ask("eth_getCode", address, "latest")
    if not isinstance(code, str):
        raise TransientError(f"no endpoint tells whether {address} has code")
    return code.lower() or "0x"


def shipped_timelock_code() -> str:
    """Return the deployed code of the shipped timelock, which has no immutables."""
    return str(contract_artifact(TIMELOCK)["deployedBytecode"]).lower()


def granting_canceller(timelock: Address, who: Address) -> TimelockedCall:
    """Return the timelock's own call that grants the vetoer the right to cancel."""
    return TimelockedCall(timelock, call_input(TIMELOCK, "grantRole", CANCELLER, who))
