"""The chain as the services see it: windows of checked logs, in order, and the heads."""

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.chain.heads import Heads
from oracle.chain.reader import Reader
from oracle.domain.block import BlockRange, BlockRef
from oracle.domain.ids import Hash
from oracle.domain.logs import Call, Log


@dataclass(frozen=True, slots=True)
class Window:
    """Everything of a range of blocks that concerns us, from one endpoint's view.

    Logs stand in order of (block, index). `first_parent` is the parent of the first block: the
    seam to the window before. `headers` holds every block of the range, or nothing.
    """

    range: BlockRange
    first_parent: Hash
    last: BlockRef
    headers: list[BlockRef]
    logs: list[Log]
    calls: list[Call]


class Source:
    """Reads one chain through its endpoints; see services/ports.py `Chain`."""

    @classmethod
    def open(
        cls, urls: Sequence[str], *, chain_id: int, finality_depth: int, reader: Reader
    ) -> "Source":
        """Return the chain behind these endpoints, the first preferred; asks nothing yet.

        Raises:
            InputError: no endpoint, or one that is no http(s) address.
        """
        raise NotImplementedError

    def check(self) -> None:
        """Ask every endpoint for its chain, and one for the code of the contracts.

        Raises:
            InputError: none answers, one is on another chain or refuses us, or an address holds
                no contract or another one than the profile reads.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Stop reading ahead and let the connections go."""
        raise NotImplementedError

    def chain_id(self) -> int:
        """Return the chain id that every endpoint in use has shown."""
        raise NotImplementedError

    def genesis_hash(self) -> Hash:
        """Return the hash of block 0."""
        raise NotImplementedError

    def heads(self) -> Heads:
        """Return newest, safe and final block; `final` never goes down."""
        raise NotImplementedError

    def header(self, number: int) -> BlockRef | None:
        """Return the block of this height; None: no endpoint has (yet) got it."""
        raise NotImplementedError

    def headers(self, blocks: BlockRange) -> list[BlockRef]:
        """Return every block of the range, asked anew, linked by parent hash.

        Raises:
            TransientError: one is missing, or they do not link.
        """
        raise NotImplementedError

    def window(self, blocks: BlockRange, *, with_headers: bool) -> Window:
        """Return what happened from `blocks.first` on, up to `blocks.last` or less.

        Reads ahead: whoever asks for `window.range.last + 1` next is served in order.

        Raises:
            TransientError: no endpoint gives a whole and consistent answer now.
            FatalError: what a contract said contradicts the call that made it say so.
        """
        raise NotImplementedError
