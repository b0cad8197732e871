"""A chain that tests script: it mines, forks and lags, and answers like a `ChainSource`.

Hashes depend on the parent and on the events of the block, so a fork differs from the original.
Logs contain their event as text, which `ScriptedReader` decodes, so stored rows can be folded
again without the chain.
"""

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from typing_extensions import override

from devnet.fakechain.mining import create_account
from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.heads import Heads
from oracle.chain.source import ChainSource
from oracle.chain.witnesses import Witness
from oracle.domain.blocks import BlockRange, BlockRef, Position
from oracle.domain.coverage import IngestScope, VerificationLevel
from oracle.domain.events import network_events
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.logs import Log
from oracle.errors import InputError, TransientError
from tests.support.scripted_reader import (
    NETWORK,
    ORACLE,
    TOPIC,
    Event,
    ScriptedReader,
    encode_event,
    is_round_log,
)

__all__ = ["NETWORK", "ORACLE", "REPORTER", "Block", "Event", "ScriptedChain", "ScriptedReader"]

REPORTER = Address(create_account(0xE1))


def _hash_parts(*parts: object) -> Hash:
    text = "|".join(str(part) for part in parts)
    return Hash("0x" + hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True)
class Block:
    ref: BlockRef
    logs: list[Log]


@dataclass
class ScriptedChain(ChainSource):
    """A chain source without endpoints; block 0 is mined at the start.

    `most_blocks`: the maximum size of a window. `lag`: the number of newest blocks that are
    hidden.
    """

    finality_depth: int = 8
    most_blocks: int = 1000
    seconds_per_block: int = 10
    lag: int = 0
    blocks: list[Block] = field(default_factory=list)
    # Other chains that answer the next requests, one request each.
    answers: deque["ScriptedChain"] = field(default_factory=deque)
    windows_served: list[BlockRange] = field(default_factory=list)
    # The level that it can prove, and the names of its one or two endpoints.
    most_level: VerificationLevel = VerificationLevel.PROVEN
    names: tuple[str, ...] = ("first", "second")
    # The level that every block of its history can reach, and the level of its windows.
    history_level: VerificationLevel = VerificationLevel.SEAMED
    window_level: VerificationLevel = VerificationLevel.SEAMED
    # The counters of its contracts, and the scopes that were requested.
    counts: dict[str, int] = field(default_factory=dict)
    scopes_asked: list[IngestScope] = field(default_factory=list)
    # Endpoints that were put aside or excluded, with the reason.
    put_away: list[tuple[str, str]] = field(default_factory=list)
    # Endpoints that were proven wrong, with the reason; they are not used.
    convicted: dict[str, str] = field(default_factory=dict)
    # The other endpoint's view; None if it is the same.
    other: "ScriptedChain | None" = None
    _salt: int = 0
    _final: BlockRef | None = None

    def __post_init__(self) -> None:
        if not self.blocks:
            self.mine()

    @property
    def newest(self) -> BlockRef:
        return self.blocks[-1].ref

    def mine(self, *events: Event, after: int | None = None) -> BlockRef:
        """Add a block with these events, each in its own transaction.

        Rounds are numbered in the order of the chain, as the contract numbers them.
        """
        parent = self.blocks[-1].ref if self.blocks else BlockRef(-1, ZERO_HASH, ZERO_HASH, 1_000)
        number = parent.number + 1
        time = parent.time + (self.seconds_per_block if after is None else after)
        placed = [
            replace(event, at=Position(number, place, place), time=time)
            for place, event in enumerate(self._number_rounds(events))
        ]
        hash_ = _hash_parts(parent.hash, number, time, self._salt, placed)
        ref = BlockRef(number, hash_, parent.hash, time)
        self.blocks.append(Block(ref, [_build_log(ref, event) for event in placed]))
        return ref

    def mine_many(self, count: int) -> None:
        for _ in range(count):
            self.mine()

    def fork(self, depth: int) -> "ScriptedChain":
        """Remove the newest blocks and return the chain as it was.

        The next blocks mined will differ.
        """
        before = self.copy()
        del self.blocks[len(self.blocks) - depth :]
        self._salt += 1
        return before

    def copy(self) -> "ScriptedChain":
        return ScriptedChain(
            self.finality_depth,
            self.most_blocks,
            self.seconds_per_block,
            blocks=list(self.blocks),
            _salt=self._salt,
        )

    # The methods of a chain source.

    @override
    def restore_read_number(self, number: int) -> None:
        """Do nothing, because no head of this chain is refuted."""

    @override
    def fetch_heads(self) -> Heads:
        visible_blocks = self._answering()._seen()
        final = visible_blocks[max(0, len(visible_blocks) - 1 - self.finality_depth)].ref
        if self._final is None or final.number > self._final.number:
            self._final = final
        return Heads(visible_blocks[-1].ref, None, self._final, endpoint=self.names[0])

    @override
    def fetch_header(self, number: int) -> BlockRef | None:
        visible_blocks = self._answering()._seen()
        return visible_blocks[number].ref if number < len(visible_blocks) else None

    @override
    def fetch_header_at_or_below(self, height: int) -> BlockRef:
        block = self.fetch_header(height)
        if block is None:
            raise TransientError(f"block {height} is missing")
        return block

    @override
    def fetch_headers(self, blocks: BlockRange) -> list[BlockRef]:
        visible_blocks = self._answering()._seen()
        if blocks.last >= len(visible_blocks):
            raise TransientError(f"block {blocks.last} is missing")
        return [block.ref for block in visible_blocks[blocks.first : blocks.last + 1]]

    @override
    def fetch_window(
        self, blocks: BlockRange, *, with_headers: bool, max_blocks: int | None = None
    ) -> BlockWindow:
        visible_blocks = self._answering()._seen()
        block_limit = self.most_blocks if max_blocks is None else min(max_blocks, self.most_blocks)
        last = min(blocks.last, blocks.first + block_limit - 1)
        if last >= len(visible_blocks):
            raise TransientError(f"block {last} is missing")
        served = visible_blocks[blocks.first : last + 1]
        window = BlockWindow(
            range=BlockRange(blocks.first, last),
            first_parent=served[0].ref.parent_hash,
            last=served[-1].ref,
            headers=[block.ref for block in served] if with_headers else [],
            endpoint=self.names[0],
            level=self.window_level,
            logs=[log for block in served for log in block.logs],
            calls=[],
        )
        self.windows_served.append(window.range)
        return window

    @override
    def fetch_verified_window(
        self,
        blocks: BlockRange,
        level: VerificationLevel,
        endpoint: str | None = None,
        *,
        excluded_endpoint: str | None = None,
        max_blocks: int | None = None,
    ) -> BlockWindow:
        if max_blocks is not None:
            blocks = BlockRange(blocks.first, min(blocks.last, blocks.first + max_blocks - 1))
        views = self._views()
        if endpoint is not None and endpoint not in views:
            raise InputError(f"there is no endpoint {endpoint}")
        fit = [name for name in views if name not in self.convicted]
        able = [name for name in fit if name != excluded_endpoint and endpoint in {None, name}]
        if not able:
            raise TransientError("there is no other endpoint")
        chosen_view = views[able[0]]
        window = chosen_view.fetch_window(blocks, with_headers=True)
        return replace(window, level=min(level, chosen_view.most_level), endpoint=able[0])

    def _views(self) -> dict[str, "ScriptedChain"]:
        return dict(zip(self.names, (self, self.other or self), strict=False))

    @override
    def get_max_allowed_level(self) -> VerificationLevel:
        return self.most_level

    @override
    def get_reachable_level(self) -> VerificationLevel:
        return self.most_level

    @override
    def restrict_to_scope(self, scope: IngestScope) -> "ScriptedChain":
        """Return the chain restricted to a scope; the served windows are recorded in both."""
        part = self.copy()
        part.blocks = [_filter_block_by_scope(block, scope) for block in self.blocks]
        part.windows_served = self.windows_served
        self.scopes_asked.append(scope)
        return part

    @override
    def fetch_contract_counters(self, block_hash: Hash) -> dict[str, int]:
        if all(block.ref.hash != block_hash for block in self._seen()):
            raise TransientError("unknown block")
        return dict(self.counts)

    @override
    def fetch_witnesses(
        self,
        number: int,
        excluded_endpoint: str | None = None,
        *,
        skip_slow_endpoints: bool = False,
    ) -> list[Witness]:
        views = self._views()
        return [
            Witness(
                name,
                visible_blocks[number].ref if number < len(visible_blocks) else None,
                visible_blocks[-1].ref,
            )
            for name, view in views.items()
            for visible_blocks in (view._seen(),)
            if name != excluded_endpoint
        ]

    @override
    def is_deep_enough(self, block: BlockRef, head: BlockRef) -> bool:
        return block.number <= head.number - self.finality_depth

    @override
    def fetch_second_witness(self, number: int, excluded_endpoint: str) -> Witness | None:
        witnesses = self.fetch_witnesses(number, excluded_endpoint)
        return next((witness for witness in witnesses if witness.block is not None), None)

    @override
    def has_linked_headers(self, endpoint: str, _blocks: BlockRange) -> bool:
        return endpoint in self.names

    @override
    def calibrate(self) -> None:
        pass

    @override
    def get_history_level(self) -> VerificationLevel:
        return self.history_level

    @override
    def deprioritise(self, endpoint: str, reason: str, _newest: int) -> None:
        self.put_away.append((endpoint, reason))

    @override
    def report_wrong_logs(self, endpoint: str, reason: str) -> None:
        self.put_away.append((endpoint, reason))

    @override
    def quarantine(self, endpoint: str, reason: str, _final: tuple[int, Hash]) -> None:
        self.put_away.append((endpoint, reason))

    @override
    def mark_proven_wrong(self, endpoint: str, reason: str) -> None:
        self.convicted.setdefault(endpoint, reason)

    @override
    def get_proven_wrong_endpoints(self) -> dict[str, str]:
        return dict(self.convicted)

    @override
    def are_receipts_provable(self) -> bool:
        return self.most_level >= VerificationLevel.PROVEN

    @override
    def get_providers(self) -> dict[str, str]:
        return {name: name for name in self.names}

    @override
    def list_endpoint_names(self) -> tuple[str, ...]:
        return self.names

    def _number_rounds(self, events: Sequence[Event]) -> Iterator[Event]:
        if not any(isinstance(event, RoundAccepted) for event in events):
            yield from events
            return
        number = sum(is_round_log(log) for block in self.blocks for log in block.logs)
        for event in events:
            if isinstance(event, RoundAccepted):
                number += 1
                yield replace(event, round=number)
            else:
                yield event

    def _answering(self) -> "ScriptedChain":
        return self.answers.popleft() if self.answers else self

    def _seen(self) -> list[Block]:
        return self.blocks[: len(self.blocks) - self.lag]


def _filter_block_by_scope(block: Block, scope: IngestScope) -> Block:
    return Block(block.ref, [log for log in block.logs if log.address in scope.addresses])


def _build_log(block: BlockRef, event: Event) -> Log:
    at = event.at
    is_network = type(event).__module__ == network_events.__name__
    return Log(
        block=block.number,
        block_hash=block.hash,
        time=block.time,
        tx=at.tx,
        tx_hash=_hash_parts(block.hash, at.tx),
        index=at.log,
        address=NETWORK if is_network else ORACLE,
        topics=(TOPIC,),
        data=encode_event(event),
    )
