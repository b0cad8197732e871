"""Estimates how many JSON-RPC calls it takes to follow a chain.

Most providers bill calls. See docs/reference/rpc-requirements.md#costs.
"""

from dataclasses import dataclass

from typing_extensions import override

from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.coverage import VerificationLevel
from oracle.rpc.endpoints.learned_limits import MAX_BLOCKS_WITH_HEADERS, MAX_LINKED_BLOCKS
from oracle.rpc.endpoints.probe import Capabilities

_HISTORY_BLOCKS = 1_000
# The first and the last header of a window of history are read to link it to its neighbours.
_LINK_HEADERS = 2


@dataclass(frozen=True, slots=True)
class RpcCosts:
    """The numbers of JSON-RPC calls needed.

    Each call in a batch counts. `empty_block` is the number for a block without logs at the head,
    including the check of the head. `history` is the number for 1,000 final blocks without
    relevant logs, at the initial size of ranges. `proof` is added for each block with logs or
    watched calls, in history and at the head. If `by_transaction` is true, a proof takes one more
    call for each transaction of the block.
    """

    empty_block: int
    proof: int
    history: int
    by_transaction: bool

    @override
    def __str__(self) -> str:
        proof_calls_text = f"{self.proof} more" if self.proof else "none more"
        if self.by_transaction and self.proof:
            proof_calls_text = f"{proof_calls_text} and one for each of its transactions"
        return (
            f"{self.empty_block} calls for an empty block at the head, {proof_calls_text} for a "
            f"block with logs or watched calls, {self.history} for 1,000 blocks of history "
            "without any"
        )


def estimate_rpc_costs(
    reader: EventReader, policy: VerificationPolicy, capabilities: Capabilities | None
) -> RpcCosts:
    """Estimate the number of calls at an endpoint with these capabilities.

    None means that the endpoint has all capabilities. No request is sent; the features of the
    chain's headers are assumed to be proven.
    """
    has_logs_by_hash = capabilities is None or capabilities.has_logs_by_hash
    serves_receipts = capabilities is None or capabilities.has_block_receipts
    watches_calls = bool(reader.selectors)
    # One call checks the head and one fetches the logs. If the endpoint does not serve logs by
    # hash, headers are read before and after the logs.
    head_calls = (
        2 + (0 if has_logs_by_hash else 2) + (1 if watches_calls and has_logs_by_hash else 0)
    )
    proves_blocks = (
        policy.get_max_level(is_history=False) >= VerificationLevel.PROVEN or watches_calls
    )
    return RpcCosts(
        empty_block=head_calls,
        proof=(1 if serves_receipts else 0) if proves_blocks else 0,
        history=_estimate_history_calls(
            policy, has_logs_by_hash=has_logs_by_hash, watches=watches_calls
        ),
        by_transaction=proves_blocks and not serves_receipts,
    )


def _estimate_history_calls(
    policy: VerificationPolicy, *, has_logs_by_hash: bool, watches: bool
) -> int:
    if watches or policy.every_header:
        window_count = _HISTORY_BLOCKS // MAX_BLOCKS_WITH_HEADERS
        log_calls = (
            _HISTORY_BLOCKS if policy.every_header and has_logs_by_hash else 2 * window_count
        )
        return _HISTORY_BLOCKS + log_calls
    window_count = _HISTORY_BLOCKS // MAX_LINKED_BLOCKS
    max_level = policy.get_max_level(is_history=True)
    if max_level < VerificationLevel.BLOOMED:
        return window_count * (1 + _LINK_HEADERS)
    # Every header is read once, and the last one again after the logs. The receipts of one block
    # are read too, to detect endpoints that have pruned blocks.
    return _HISTORY_BLOCKS + window_count * (2 + (max_level >= VerificationLevel.PROVEN))
