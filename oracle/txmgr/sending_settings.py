"""When a transaction is replaced by a dearer one, and how many may be under way."""

from dataclasses import dataclass

from oracle.txmgr.client.l1_fees import L1Fee


@dataclass(frozen=True, slots=True)
class SendSettings:
    """The numbers of `[limits]` that are no money (publishing.md 3.6).

    A transaction is bumped when `bump_blocks` blocks and `bump_seconds` seconds of the chain's
    time have passed; at most `max_attempts` are signed for a nonce. `max_in_flight`: nonces of
    the transmitter that are not final. `l1_fee`: how a rollup tells what its data costs.
    """

    bump_blocks: int = 3
    bump_seconds: int = 30
    max_attempts: int = 10
    max_in_flight: int = 64
    l1_fee: L1Fee = L1Fee.NONE
