"""Drives an Objections contract: objections by nodes, and signed ones that any account sends.

The signed type is independent of the daemon's code (docs/explanation/objections.md).
"""

from dataclasses import dataclass, replace
from typing import Any

from eth_account.signers.local import LocalAccount
from web3.contract import Contract

from tests.support.evm.chain import Chain, Receipt

FIELDS = [
    {"name": "node", "type": "address"},
    {"name": "dueSince", "type": "uint40"},
    {"name": "reason", "type": "uint8"},
    {"name": "words", "type": "string"},
    {"name": "seq", "type": "uint32"},
    {"name": "deadline", "type": "uint40"},
]
FAR = 2**40 - 1
WORDS = "All tasks of one application timed out on everybody."


@dataclass(frozen=True)
class SignedObjection:
    """The values that a node signs, in the order of the contract's struct."""

    node: str
    due_since: int = 1_700_000_000
    reason: int = 2
    words: str = WORDS
    seq: int = 0
    deadline: int = FAR

    @property
    def values(self) -> tuple[Any, ...]:
        return (self.node, self.due_since, self.reason, self.words, self.seq, self.deadline)

    def sign(self, signer: LocalAccount, chain_id: int, contract: str) -> bytes:
        domain = {
            "name": "QoSObjections",
            "version": "1",
            "chainId": chain_id,
            "verifyingContract": contract,
        }
        message = dict(zip((field["name"] for field in FIELDS), self.values, strict=True))
        return bytes(signer.sign_typed_data(domain, {"Objection": FIELDS}, message).signature)


@dataclass(frozen=True)
class ObjectionsDriver:
    chain: Chain
    contract: Contract

    def object(
        self, node: str, *, words: str = WORDS, due_since: int = 1, reason: int = 0
    ) -> Receipt:
        call = self.contract.functions.object(due_since, reason, words)
        return self.chain.send(call, sender=node)

    def bring(self, objection: SignedObjection, signer: LocalAccount, **signed_as: Any) -> Receipt:
        """Send a signed objection; `signed_as` are the fields in which the signature differs."""
        signature = replace(objection, **signed_as).sign(
            signer, self.chain.id, self.contract.address
        )
        return self.bring_signature(objection, signature)

    def bring_signature(self, objection: SignedObjection, signature: bytes) -> Receipt:
        return self.chain.send(self.contract.functions.objectFor(objection.values, signature))

    def next_seq(self, node: str) -> int:
        return int(self.contract.functions.nextSeq(node).call(block_identifier="latest"))


def deploy_objections(chain: Chain, oracle: str) -> ObjectionsDriver:
    return ObjectionsDriver(chain, chain.deploy("roots/Objections", oracle))
