"""The interfaces through which services read the chain.

Only interfaces with two implementations are declared: the real chain and the scripted chain of
the tests. The interface of the publishing side is in `publisher`, next to its services.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from oracle.chain.feed.relay_reader import RelayReader
from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.heads import Heads
from oracle.chain.profiles.event_reader import DecodedEvents
from oracle.chain.witnesses import Witness
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.coverage import IngestScope, VerificationLevel
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call, Log


class ChainReader(Protocol):
    """Reads the chain; every method may raise TransientError (retry on the next tick)."""

    def fetch_heads(self) -> Heads:
        """Return the newest, safe and final block; see `HeadTracker.fetch_heads`."""
        ...

    def fetch_header(self, number: int) -> BlockRef | None:
        """Return the block at this height, or None if the endpoint does not have it (yet)."""
        ...

    def fetch_header_at_or_below(self, height: int) -> BlockRef:
        """Return the block at this height, or the last one before it if the height was skipped.

        Raises TransientError if the endpoint lacks the block.
        """
        ...

    def fetch_headers(self, blocks: BlockRange) -> list[BlockRef]:
        """Fetch every block of the range again, and check that they are linked by parent hash.

        Heights that the chain skipped, as the parent hashes prove, are left out.

        Raises:
            TransientError: a block is missing, or the blocks are not linked.
        """
        ...

    def fetch_window(
        self, blocks: BlockRange, *, with_headers: bool, max_blocks: int | None = None
    ) -> BlockWindow:
        """Return logs, calls and headers from `blocks.first` on, up to `blocks.last` or less.

        The window ends above `blocks.last` only if the chain skipped every height up to there; it
        then ends with the next block.

        The range is sized by the limits of the endpoints and by `max_blocks`, the approximate
        number of blocks that the caller needs at once. Without headers (for final blocks), the
        following blocks may be prefetched. A caller that continues with
        `blocks.first = window.range.last + 1` gets them in order. With headers, every block of the
        window is in `headers`, with or without logs.
        """
        ...

    def fetch_witnesses(
        self,
        number: int,
        excluded_endpoint: str | None = None,
        *,
        skip_slow_endpoints: bool = False,
    ) -> Sequence[Witness]:
        """Query every endpoint but `excluded_endpoint` for its block at this height.

        Endpoints that do not answer are left out. An endpoint whose head is below the height is
        not a witness of it. With `skip_slow_endpoints`, endpoints that were slow recently are left
        out, for comparisons that are repeated often.
        """
        ...

    def fetch_second_witness(
        self, number: int, excluded_endpoint: str
    ) -> tuple[str, BlockRef] | None:
        """Return an endpoint of another witness, and its block at this height.

        If no other witness answers, return None.
        """
        ...

    def has_linked_headers(self, endpoint: str, blocks: BlockRange) -> bool:
        """Return whether the endpoint's headers of the range are linked and have valid hashes."""
        ...

    def deprioritise(self, endpoint: str, reason: str, newest_number: int) -> None:
        """Move an endpoint behind the others for a while: it was outvoted on a non-final block.

        `newest_number` is the highest block of the endpoints that outvoted it: endpoints at that
        height do not lag.
        """
        ...

    def report_wrong_logs(self, endpoint: str, reason: str) -> None:
        """Move the endpoint behind the others for a while: it omitted or changed logs."""
        ...

    def quarantine(self, endpoint: str, reason: str, final_block: tuple[int, Hash]) -> None:
        """Stop using the endpoint until it shows this final block, given by height and hash."""
        ...

    def mark_proven_wrong(self, endpoint: str, reason: str) -> None:
        """Stop using an endpoint that was proven wrong, until an operator readmits it."""
        ...

    def get_proven_wrong_endpoints(self) -> Mapping[str, str]:
        """Return the proof against each endpoint that was proven wrong and not readmitted."""
        ...

    def are_receipts_provable(self) -> bool:
        """Return whether, on this chain, receipts can be proven by the block hash."""
        ...

    def list_endpoint_names(self) -> tuple[str, ...]:
        """Return the names of the endpoints, the preferred one first."""
        ...

    def get_providers(self) -> Mapping[str, str]:
        """Return the provider of each endpoint, by name; a provider counts as one witness."""
        ...

    def fetch_verified_window(
        self,
        blocks: BlockRange,
        level: VerificationLevel,
        endpoint: str | None = None,
        *,
        excluded_endpoint: str | None = None,
        max_blocks: int | None = None,
    ) -> BlockWindow:
        """Fetch a range of blocks again, or its first part, and verify the blocks.

        The window is verified up to `level`, or as far as the chain allows; `window.level` is the
        level reached. The blocks are read from `endpoint`, or from any endpoint but
        `excluded_endpoint`. `max_blocks` is the maximum number of blocks at once. A caller that
        passes it continues with the block after the window, so that workers may prepare the
        following blocks.

        Raises:
            InputError: there is no endpoint of that name.
            TransientError: the endpoint does not answer, or there is no other endpoint.
        """
        ...

    def get_max_allowed_level(self) -> VerificationLevel:
        """Return the highest level that settings and calibration allow; sends no request."""
        ...

    def get_reachable_level(self) -> VerificationLevel:
        """Return the highest level that settings allow and the chain may reach.

        It is above `get_max_allowed_level` until samples have shown which header features are
        valid. Sends no request.
        """
        ...

    def calibrate(self) -> None:
        """Find out from samples which header features are valid, unless that is known."""
        ...

    def get_history_level(self) -> VerificationLevel:
        """Return the level that every historical block currently reaches; sends no request.

        A level below BLOOMED means that the chain's headers prove nothing, or that this is not
        known yet.
        """
        ...

    def restrict_to_scope(self, scope: IngestScope) -> "ChainReader":
        """Return a reader of the same chain that is limited to this scope."""
        ...

    def fetch_contract_counters(self, block_hash: Hash) -> Mapping[str, int]:
        """Return the contracts' counters at the end of this block, by name; may be empty."""
        ...


class LogReader(Protocol):
    """Turns stored logs and calls into events; never queries the chain."""

    @property
    def addresses(self) -> Sequence[Address]:
        """The contracts whose logs are read."""
        ...

    @property
    def topics(self) -> Sequence[str]:
        """The first topics of the logs that are read."""
        ...

    @property
    def selectors(self) -> Mapping[Address, frozenset[str]]:
        """The selectors (first four bytes of the input) of the indexed calls, by contract."""
        ...

    @property
    def identity(self) -> str:
        """An identifier that changes with everything that affects the decoded events."""
        ...

    @property
    def holds_kickouts(self) -> bool:
        """Whether the profile of the network holds every kickout for an operator."""
        ...

    @property
    def feed(self) -> RelayReader | None:
        """The reader of the feed beside the chain, or None if there is no feed."""
        ...

    def decode_rows(self, logs: Sequence[Log], calls: Sequence[Call]) -> DecodedEvents:
        """Return the events of the logs and calls, in order of position.

        Rows that match but cannot be decoded are in `dead_letters` and yield no event.
        """
        ...
