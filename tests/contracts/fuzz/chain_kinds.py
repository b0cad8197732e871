"""The kinds of chain in which a walk runs: how far back block hashes are available."""

from eth_utils.crypto import keccak

NEAR, FAR = 256, 8191
# ArbSys numbers its blocks ahead of the EVM's.
ARBITRUM_AHEAD = 1_000_000


def true_hash(number: int, *, is_arbitrum: bool) -> bytes:
    """Return the hash of a block in the tests' EVM and in the double of ArbSys."""
    if not is_arbitrum:
        return keccak(text=str(number))
    head = (64).to_bytes(32) + number.to_bytes(32)
    return keccak(head + (8).to_bytes(32) + b"arbitrum".ljust(32, b"\0"))


def find_block_hash(number: int, newest: int, *, is_arbitrum: bool, has_history: bool) -> int:
    """Return the hash that a contract in block `newest` finds, or 0 if it finds none."""
    farthest = FAR if has_history and not is_arbitrum else NEAR
    if not 0 < newest - number <= farthest:
        return 0
    return int.from_bytes(true_hash(number, is_arbitrum=is_arbitrum))
