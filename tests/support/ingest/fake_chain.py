"""A chain of real blocks with the traffic of a small network, and endpoints that serve it."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache

import msgspec

from devnet.fakechain.block_json import Block, FakeLog
from devnet.fakechain.provider import Provider
from devnet.fakechain.server import serve_endpoint
from devnet.fakechain.tree import BlockTree, get_branch
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.resources import find_shipped_path
from tests.support.chain.network_logs import NETWORK, ORACLE
from tests.support.ingest.event_encoding import build_transaction, build_transactions
from tests.support.ingest.indexer import CHAIN_ID, FINALITY
from tests.support.traffic import Traffic, build_accepted_round


@cache
def _load_code(contract: str) -> str:
    """Return the code of a shipped contract, which a daemon checks before it trusts an address."""
    artifact = msgspec.json.decode(find_shipped_path(f"abi/{contract}.json").read_bytes())
    return str(artifact["deployedBytecode"])


@dataclass
class FakeChain:
    """A chain with endpoints.

    `mine` adds blocks; every provider in `following` shows the newest block at once.
    """

    until_the_end: ExitStack
    tree: BlockTree = field(default_factory=lambda: BlockTree(CHAIN_ID))
    traffic: Traffic = field(default_factory=lambda: Traffic(1))
    providers: list[Provider] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    # Providers that lag or stay on a fork are removed from this list.
    following: list[Provider] = field(default_factory=list)

    @property
    def head(self) -> Block:
        """The last mined block."""
        return self.tree.last_mined

    @property
    def provider(self) -> Provider:
        """The first provider."""
        return self.providers[0]

    def serve(self, *, follows: bool = True) -> Provider:
        """Add an endpoint; its `finalized` tag has the finality depth of `Indexer`."""
        provider = Provider(self.tree)
        provider.tag_targets = {"safe": 2, "finalized": FINALITY}
        provider.code_by_address = {
            NETWORK: _load_code("TaskNetwork"),
            ORACLE: _load_code("roots/QoSRoots"),
        }
        self.providers.append(provider)
        self.urls.append(self.until_the_end.enter_context(serve_endpoint(provider)).url)
        if follows:
            self.following.append(provider)
        return provider

    def live(self, blocks: int, on: Block | None = None, seconds: int = 12) -> Block:
        """Mine blocks in which nodes come and go and tasks run; many blocks are empty."""
        return self.live_after_gaps([0] * blocks, on, seconds)

    def live_after_gaps(
        self, gaps: Sequence[int], on: Block | None = None, seconds: int = 12
    ) -> Block:
        """Mine a block after each of these numbers of skipped heights, as `live` does.

        Rounds are numbered in the order of the branch, as the contract numbers them.
        """
        last = on or self.head
        round_number = self._count_rounds(last)
        for gap in gaps:
            events = self.traffic.block()
            for place, event in enumerate(events):
                if isinstance(event, RoundAccepted):
                    round_number += 1
                    events[place] = replace(event, round=round_number)
            number = last.number + 1 + gap
            last = self.tree.mine(build_transactions(events), last, seconds, number=number)
        return self.show(last)

    def _count_rounds(self, head: Block) -> int:
        (topic,) = build_transactions([build_accepted_round(1)])[0].logs[0].topics[:1]
        return sum(
            log["topics"][:1] == [topic] for block in get_branch(head) for log in block.logs
        )

    def emit(self, *logs: FakeLog, on: Block | None = None) -> Block:
        """Mine one block with these logs, each in its own transaction."""
        return self.show(self.tree.mine([build_transaction(log) for log in logs], on))

    def mine_empty(self, blocks: int, on: Block | None = None, seconds: int = 12) -> Block:
        """Mine empty blocks."""
        return self.show(self.tree.mine_empty_blocks(blocks, on, seconds))

    def show(self, head: Block) -> Block:
        """Let all following providers show this block as the newest."""
        for provider in self.following:
            provider.head = head
        return head

    def back(self, blocks: int, head: Block | None = None) -> Block:
        """Return the block `blocks` blocks below a head, as the base of a fork."""
        return get_branch(head or self.head)[-1 - blocks]

    def logs(self, head: Block | None = None) -> list[tuple[str, int]]:
        """Return (block hash, log index) of every log of our contracts up to a head, in order."""
        return [
            (block.hash, int(log["logIndex"], 16))
            for block in get_branch(head or self.head)
            for log in block.logs
            if log["address"] in {NETWORK, ORACLE}
        ]
