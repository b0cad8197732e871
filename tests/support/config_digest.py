"""Computes the digest of a configuration, which the daemon only reads from the contract."""

from collections.abc import Sequence

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address, Hash
from oracle.signing.typed_data import Domain


def compute_config_digest(
    domain: Domain, config_count: int, signers: Sequence[Address], quorum: int, rules_hash: Hash
) -> Hash:
    """Return the digest of a configuration, as the contract computes it.

    Every change of signers, rules, chain or contract invalidates existing signatures. See
    docs/reference/report-format.md#what-is-signed.
    """
    domain_fields = (domain.chain_id, domain.contract, config_count)
    # abi.encode: six words, the fourth of which is the offset of the list that follows.
    words = [
        *(
            _encode_word(value)
            for value in (
                domain_fields[0],
                int(domain_fields[1], 16),
                domain_fields[2],
                6 * 32,
                quorum,
            )
        ),
        bytes.fromhex(rules_hash[2:]),
        *(
            _encode_word(value)
            for value in (len(signers), *(int(signer, 16) for signer in signers))
        ),
    ]
    return Hash("0x" + keccak(b"".join(words)).hex())


def _encode_word(value: int) -> bytes:
    return value.to_bytes(32)
