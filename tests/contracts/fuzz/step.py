"""One step of a walk: time goes on, then somebody calls something."""

from dataclasses import dataclass

from tests.contracts.fuzz.evm import GAS
from tests.contracts.fuzz.signing import Signatures

# What a walk does beside calling: wait; remember a place; go back to it, as a reorg does.
WAIT, MARK, REORG = "wait", "mark", "reorg"
OF_THE_NETWORK = ("join", "quit", "setRefuses")
UNSIGNED = Signatures(())


@dataclass(frozen=True, slots=True)
class Step:
    """A call of the function `name`; `words` are its plain arguments in their order.

    `signers`, `data` and `signatures` are the ones that are not plain. A step that
    `is_forwarded` reaches the oracle from the network's address. `blocks` and `seconds` pass
    before it.
    """

    name: str
    caller: int = 0
    words: tuple[int, ...] = ()
    signers: tuple[int, ...] = ()
    data: bytes = b""
    signatures: Signatures = UNSIGNED
    blocks: int = 1
    seconds: int = 1
    is_forwarded: bool = False
    gas: int = GAS

    @property
    def arguments(self) -> tuple[int | bytes | list[int], ...]:
        if self.name == "push":
            return (*self.words, self.data, self.signatures.raw)
        if self.name == "proposeKick":
            return (*self.words, self.signatures.raw)
        if self.name == "setSigners":
            return (list(self.signers), *self.words)
        return self.words
