"""Random signatures of a quorum, valid and invalid ones."""

from dataclasses import replace
from random import Random
from typing import Protocol

from tests.contracts.fuzz.signing import Form, Signature, Signatures, ring


class Quorum(Protocol):
    """The signers of an oracle, and the required number of signatures."""

    @property
    def signers(self) -> tuple[int, ...]:
        """Return their addresses."""

    @property
    def quorum(self) -> int:
        """Return the number of signatures that a report needs."""


def key_number(address: int) -> int:
    """Return the number of the key that has this address."""
    return next(at for at, key in enumerate(ring()) if key.address == address)


def sign_by_quorum(chosen: Random, state: Quorum, digest: bytes) -> Signatures:
    """Return the signatures of a valid quorum."""
    who = chosen.sample(state.signers, state.quorum)
    return Signatures(tuple(Signature(key_number(address), digest) for address in who))


def twist_signatures(chosen: Random, good: Signatures) -> Signatures:
    """Return the signatures with an error, or unchanged if no error is possible."""
    signatures = list(good.given)
    at = chosen.randrange(len(good.given))
    mutation = chosen.randrange(8)
    if mutation == 0:
        signatures[at] = signatures[at - 1]
    elif mutation == 1:
        signatures[at] = replace(signatures[at], key=chosen.randrange(len(ring())))
    elif mutation in {2, 3, 4}:
        form = (Form.HIGH_S, Form.LOW_V, Form.NOISE)[mutation - 2]
        signatures[at] = replace(signatures[at], form=form)
    elif mutation == 5:
        signatures[at] = replace(signatures[at], digest=bytes(31) + b"\x01")
    elif mutation == 6:
        signatures = signatures[:-1] if chosen.random() < 0.5 else [*signatures, signatures[at]]
    else:
        return replace(good, longer=chosen.choice((-65, -1, 1, 65)))
    return Signatures(tuple(signatures))


def list_addresses(signatures: Signatures) -> list[int]:
    """Return the address of each key that signed, in the order of the signatures."""
    return [ring()[signature.key].address for signature in signatures.given]
