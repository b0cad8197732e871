"""Verifies the blocks that support a kickout, as far as the chain allows.

This module imports the chain. It is separate from `evidence_verification`, which is imported by
commands that only read the database. See docs/explanation/verification.md.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.indexer.audit.reverify import reverify_and_repair
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.evidence_verification import EvidenceVerification

# One tick verifies at most this many blocks, so that it does not delay other jobs.
_BLOCKS_PER_TICK = 20


@dataclass(frozen=True, slots=True)
class EvidenceVerifier:
    """Verifies the blocks on which kickouts depend, and records their levels.

    In a dry run nothing is verified, because the result could not be written.
    """

    context: RepairContext
    is_dry_run: bool = False

    def get_level(self) -> VerificationLevel:
        """Return the verification level that the blocks behind a kickout must reach.

        No request is sent. While it is unknown what the chain's headers can prove, the highest
        level is returned, so that no kickout is signed before its blocks are proven.
        """
        return min(VerificationLevel.PROVEN, self.context.chain.get_reachable_level())

    def verify_next_blocks(self, proof: EvidenceVerification) -> int:
        """Verify the first unverified blocks, and return how many reached the level.

        Nothing is verified in a dry run, or before it is known what the chain's headers can prove.
        If an endpoint had omitted or invented logs, the stored logs are repaired.

        Raises:
            TransientError: no endpoint returns a complete and consistent response.
        """
        if self.is_dry_run:
            return 0
        if self.context.chain.get_max_allowed_level() < proof.level:
            self.context.chain.calibrate()
            return 0
        verified_count = 0
        for blocks in _group_blocks_into_ranges(proof.unproven[:_BLOCKS_PER_TICK]):
            verify_result = reverify_and_repair(self.context, blocks, proof.level)
            if verify_result.reached_level >= proof.level and not verify_result.difference:
                verified_count += len(blocks)
        return verified_count


def _group_blocks_into_ranges(sorted_numbers: Iterable[int]) -> Iterator[BlockRange]:
    """Yield ranges of consecutive numbers from a sorted list of block numbers."""
    consecutive_blocks: list[int] = []
    for number in sorted_numbers:
        if consecutive_blocks and number != consecutive_blocks[-1] + 1:
            yield BlockRange(consecutive_blocks[0], consecutive_blocks[-1])
            consecutive_blocks = []
        consecutive_blocks.append(number)
    if consecutive_blocks:
        yield BlockRange(consecutive_blocks[0], consecutive_blocks[-1])
