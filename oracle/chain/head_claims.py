"""Rejects a head that only one endpoint reports, unless the endpoint returns its blocks.

If an endpoint reported a head far above the real head of the chain, the index would seem to be far
behind, and nothing would be published. See docs/explanation/endpoints.md#inflated-heads.
"""

from oracle.chain.heads import Heads
from oracle.chain.witnesses import Witness, WitnessFetcher
from oracle.domain.blocks import BlockRef
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import RpcError

# A head up to this number of blocks above the newest known block is used without a check. At this
# distance, an index still counts as at the head (`txmgr.context.BLOCKS_UNDER_HEAD`).
MAX_UNCHECKED_BLOCKS = 2
# The endpoint has to return a block at one of this many heights above the other witness's head.
_NEXT_HEIGHTS = 10


class HeadClaims:
    """Compares an endpoint's head with the heads of other witnesses; used by one thread."""

    def __init__(self, endpoints: EndpointPool, witnesses: WitnessFetcher) -> None:
        self._endpoints = endpoints
        self._witnesses = witnesses
        # The height of the highest block that was read, or that two witnesses have reached.
        self._known_number = -1

    def record_read_block(self, block: BlockRef) -> None:
        """Record a block that was read; a head only slightly above this block is not checked."""
        self._known_number = max(self._known_number, block.number)

    def limit_known_number(self, max_number: int) -> None:
        """Lower the known height to `max_number`, because an endpoint was outvoted."""
        self._known_number = min(self._known_number, max_number)

    def find_refuting_witness(self, heads: Heads) -> Witness | None:
        """Return a witness whose lower head must be used instead of the head of `heads`, or None.

        A head is accepted if it is close to the newest known block or to the head of another
        witness, or if its endpoint returns the blocks that the other witness lacks. Therefore a
        second endpoint that lags or has stalled does not hold back the index.
        """
        claimed_number = heads.latest.number
        if claimed_number <= self._known_number + MAX_UNCHECKED_BLOCKS:
            return None
        witness = self._fetch_lower_head(heads)
        if witness is None:
            return None
        lower_number = witness.head.number
        is_confirmed = claimed_number <= lower_number + MAX_UNCHECKED_BLOCKS
        if not is_confirmed and not self._shows_blocks_above(heads, lower_number):
            return witness
        self._known_number = max(self._known_number, min(claimed_number, lower_number))
        return None

    def find_readable_head(self, heads: Heads) -> Witness | None:
        """Return a witness whose head is below the latest block of `heads`, or None.

        Blocks up to the latest block of `heads` could not be read.
        """
        witness = self._fetch_lower_head(heads)
        return None if witness is None or witness.head.number >= heads.latest.number else witness

    def _fetch_lower_head(self, heads: Heads) -> Witness | None:
        """Return the other witness with the highest head, or None if it is below known blocks."""
        witness = self._witnesses.fetch_highest_head(
            heads.endpoint, heads.latest.number - MAX_UNCHECKED_BLOCKS
        )
        lowest_number = self._known_number - MAX_UNCHECKED_BLOCKS
        return None if witness is None or witness.head.number < lowest_number else witness

    def _shows_blocks_above(self, heads: Heads, lower_number: int) -> bool:
        """Return whether an endpoint returns its newest block and the blocks above `lower_number`.

        One of a few blocks above suffices, because the chain may have no block at some heights.
        """
        newest = heads.latest
        next_heights = range(
            lower_number + 1, min(newest.number, lower_number + _NEXT_HEIGHTS) + 1
        )
        try:
            *next_blocks, newest_block = self._endpoints.run_with_endpoint(
                lambda endpoint: endpoint.get_headers([*next_heights, newest.number]),
                only_endpoint=heads.endpoint,
            )
        except RpcError:
            return False
        return newest_block is not None and newest_block.hash == newest.hash and any(next_blocks)
