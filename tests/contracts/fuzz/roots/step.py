"""A step of a walk: time passes, then an account calls one of the contracts."""

from dataclasses import dataclass

from tests.contracts.fuzz.evm import GAS, Argument
from tests.contracts.fuzz.roots.trees import Contents
from tests.contracts.fuzz.signing import Signatures
from tests.contracts.fuzz.step import UNSIGNED

OF_THE_NETWORK = ("join", "quit", "setRefuses")
OF_THE_WORDS = ("bring", "bind")
OF_THE_CHALLENGE = ("twoLeaves", "wrongLane", "wrongPool")
SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True)
class Step:
    """A call of the function `name` with these arguments, in the form of the ABI.

    `contents` are those of the root of a push, `signatures` its signatures. A step that
    `is_forwarded` reaches the oracle from the network's address. `blocks` and `seconds` pass
    before it.

    `contents` are what the root of a push was made of, `signatures` who signed it. A step that
    `is_forwarded` reaches the oracle from the network's address. `blocks` and `seconds` pass
    before it.
    """

    name: str
    caller: int = 0
    arguments: tuple[Argument, ...] = ()
    contents: Contents | None = None
    signatures: Signatures = UNSIGNED
    blocks: int = 1
    seconds: int = 1
    is_forwarded: bool = False
    gas: int = GAS
