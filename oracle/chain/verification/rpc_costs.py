"""What following a chain costs, in JSON-RPC calls: what most endpoints count.

See docs/reference/rpc-requirements.md#costs.
"""

from dataclasses import dataclass

from typing_extensions import override

from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.coverage import Level
from oracle.rpc.endpoints.capabilities import Capabilities
from oracle.rpc.endpoints.range_sizer import MOST_LINKED, MOST_WITH_HEADERS

_BLOCKS = 1_000
# First and last header of a window of history.
_LINKS = 2


@dataclass(frozen=True, slots=True)
class Costs:
    """Calls; the parts of a batch count each. The look at the head is one of an empty block's.

    `history` is for 1,000 final blocks without logs of ours, at the first size of a range;
    `proof` comes on top for each block with logs or watched calls, there and at the head.
    `by_transaction`: a proof is one call for each transaction of the block.
    """

    empty_block: int
    proof: int
    history: int
    by_transaction: bool

    @override
    def __str__(self) -> str:
        proofs = f"{self.proof} more" if self.proof else "none more"
        if self.by_transaction and self.proof:
            proofs = f"{proofs} and one for each of its transactions"
        return (
            f"{self.empty_block} calls for an empty block at the head, {proofs} for a block with "
            f"logs or watched calls, {self.history} for 1,000 blocks of history without any"
        )


def costs(reader: EventReader, policy: VerificationPolicy, facts: Capabilities | None) -> Costs:
    """Return what this costs at an endpoint of these facts; None: one that serves everything.

    Asks nothing; that the chain's headers are proven already is taken for granted.
    """
    by_hash = facts is None or facts.has_logs_by_hash
    serves_receipts = facts is None or facts.has_block_receipts
    watches = bool(reader.selectors)
    # The look at the head and the logs; without logs by hash, headers before and after.
    head = 2 + (0 if by_hash else 2) + (1 if watches and by_hash else 0)
    proves = policy.top(is_history=False) >= Level.PROVEN or watches
    return Costs(
        empty_block=head,
        proof=(1 if serves_receipts else 0) if proves else 0,
        history=_history(policy, by_hash=by_hash, watches=watches),
        by_transaction=proves and not serves_receipts,
    )


def _history(policy: VerificationPolicy, *, by_hash: bool, watches: bool) -> int:
    if watches or policy.every_header:
        windows = _BLOCKS // MOST_WITH_HEADERS
        logs = _BLOCKS if policy.every_header and by_hash else 2 * windows
        return _BLOCKS + logs
    windows, top = _BLOCKS // MOST_LINKED, policy.top(is_history=True)
    if top < Level.BLOOMED:
        return windows * (1 + _LINKS)
    # Every header, the last one again after the logs, and the receipts of one block: who has
    # forgotten is not believed.
    return _BLOCKS + windows * (2 + (top >= Level.PROVEN))
