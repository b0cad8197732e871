"""The cost of following a chain in JSON-RPC calls, which most providers bill.

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
# The first and last header of a window of history.
_LINKS = 2


@dataclass(frozen=True, slots=True)
class Costs:
    """Numbers of calls; each part of a batch counts. `empty_block` includes the head check.

    `history` is for 1,000 final blocks without relevant logs, at the initial range size; `proof`
    is added for each block with logs or watched calls, in history and at the head.
    `by_transaction`: a proof takes one call for each transaction of the block.
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
    """Return the costs at an endpoint with these capabilities; None means all of them.

    No request is sent; the features of the chain's headers are assumed to be proven.
    """
    by_hash = facts is None or facts.has_logs_by_hash
    serves_receipts = facts is None or facts.has_block_receipts
    watches = bool(reader.selectors)
    # The head check and the logs; without logs by hash also headers before and after.
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
    # Every header, the last one again after the logs, and the receipts of one block, to detect
    # endpoints that have pruned it.
    return _BLOCKS + windows * (2 + (top >= Level.PROVEN))
