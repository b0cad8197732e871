"""Other signers of the contract: their keys, their registration, and their statements."""

from collections.abc import Sequence
from typing import Any

from eth_utils.address import to_checksum_address

from oracle.signing.local import KeySigner
from oracle.signing.signer import Signer
from tests.support.harness import Harness, create_key_files


def create_strangers(harness: Harness, count: int) -> list[Signer]:
    """Return keys of other reporters."""
    folder = harness.testbed.key_folder / "strangers"
    folder.mkdir(exist_ok=True)
    existing_count = len(list(folder.iterdir()))
    return [
        KeySigner.open(*create_key_files(folder, f"{existing_count + place}"))
        for place in range(count)
    ]


def set_signers(harness: Harness, *signers: Signer, needed: int) -> None:
    """Let the admin set these signers, in a separate block."""
    testbed = harness.testbed
    # Independent of the cost of earlier blocks.
    testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", "0x0")
    testbed.chain.send(
        build_signer_replacement(harness, signers, needed), sender=testbed.network.admin
    )


def build_signer_replacement(harness: Harness, signers: Sequence[Signer], needed: int) -> Any:
    """Return the call that sets these signers."""
    named = [to_checksum_address(signer.address) for signer in signers]
    return harness.testbed.oracle.functions.setSigners(named, needed)
