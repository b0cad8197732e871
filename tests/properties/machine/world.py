"""A chain, three endpoints and one indexer with random actions, and the invariants."""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.provider import Provider
from devnet.fakechain.tree import get_branch
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from oracle.indexer.audit.auditor import Auditor, audit_next_window
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.store.database import Store
from oracle.store.outbox.records import PUSH, UNFINISHED_STATES, Account, CallRequest, Stamp
from tests.support.chain.network_logs import ORACLE
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import CHAIN_ID, FINALITY, Indexer
from tests.support.traffic import Traffic, make_address
from tests.support.txmgr.brittle import Brittle, Died

US = Account(CHAIN_ID, make_address(0xAB))
# Longer than any backoff, and the number of tries until a resting endpoint is used again.
_A_LONG_WHILE, _MOST_TRIES = 600.0, 12
_STEPS_AT_MOST = 200
# The blocks of one audit: more than any tag lags behind, and more than any fork shortens the
# chain.
AUDITED, SETTLING = 8, 40


class World:
    """Closed by `close`; `template` is a migrated database without rows."""

    def __init__(self, seed: int, template: Path) -> None:
        self._until_the_end = ExitStack()
        folder = self._until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="world-"))
        database = Path(folder) / "oracle.sqlite"
        shutil.copyfile(template, database)
        self.clock = VirtualClock()
        self.chain = FakeChain(self._until_the_end, traffic=Traffic(seed))
        for _ in range(3):
            self.chain.serve()
        self.chain.live(20)
        # The highest block that any endpoint has ever called final: the chain keeps it.
        self.final = 0
        self._is_final()
        self.was_lied_to = False
        url = f"sqlite:///{database}"
        self.indexer = Indexer(self.chain.urls, url, clock=self.clock)
        self._until_the_end.callback(self.indexer.close)
        self.auditor = Auditor(window_blocks=AUDITED)
        with self.indexer.store.transaction() as uow:
            uow.outbox.accounts.enroll_account(US, 0, Stamp(0, 1))

    def close(self) -> None:
        self._until_the_end.close()

    # --- changes of the chain ---

    def mine(self, blocks: int, seconds: int) -> None:
        self.chain.live(blocks, seconds=seconds)
        self._is_final()

    def fork(self, depth: int, blocks: int) -> None:
        """Replace blocks that are not final by others, possibly fewer."""
        deepest = self.chain.head.number - self.final
        on = self.chain.back(min(depth, deepest))
        self.chain.live(blocks, on=on)
        self._is_final()

    def _is_final(self) -> None:
        self.final = max(self.final, self.chain.head.number - FINALITY)

    # --- changes of endpoints ---

    def stay(self, provider: Provider) -> None:
        """Freeze the endpoint at its current view until `come_back`."""
        if provider in self.chain.following and len(self.chain.following) > 1:
            self.chain.following.remove(provider)

    def come_back(self, provider: Provider) -> None:
        if provider not in self.chain.following:
            self.chain.following.append(provider)
        provider.head = self.chain.head

    def lag(self, provider: Provider, blocks: int) -> None:
        """Let the endpoint lag behind on the current chain, and stay there."""
        self.stay(provider)
        if provider not in self.chain.following:
            on = get_branch(self.chain.head)
            provider.head = on[max(0, len(on) - 1 - blocks)]

    def finalize(self, provider: Provider, depth: int) -> None:
        """Let its tag lag further behind than those of the others."""
        provider.tag_targets = {**provider.tag_targets, "finalized": depth}

    def prune(self, blocks: int) -> None:
        """Let the first endpoint prune everything below this number of blocks under its head.

        Only this one: blocks that a single endpoint has could not be audited, nor anything after
        them.
        """
        first = self.chain.providers[0]
        first.pruned_below = max(first.pruned_below, first.head.number - blocks)

    def spoil(self, provider: Provider, fault: InjectedFault) -> None:
        provider.faults = [fault]

    def lie(self, fault: InjectedFault) -> None:
        """Let only the first endpoint lie: two with the same lie would be trusted."""
        self.was_lied_to = True
        self.spoil(self.chain.providers[0], fault)

    def heal(self, provider: Provider) -> None:
        provider.faults = []

    # --- changes of the daemon ---

    def step(self) -> bool:
        """Run a step; return whether there was anything to do."""
        try:
            return self.indexer.step() is not None
        except TransientError:
            return True

    def follow(self, steps: int, seconds: float = 5.0) -> None:
        """Run this number of steps, with these seconds between them, and plan what is due."""
        for _ in range(steps):
            self.clock.advance(seconds)
            self.step()
        self.plan()

    def audit(self) -> bool:
        """Compare the next final blocks with a second endpoint; return whether there were any."""
        indexer = self.indexer
        try:
            done = audit_next_window(
                RepairContext(indexer.source, indexer.store, indexer.folder, RebuildOptions()),
                self.auditor,
            )
        except TransientError:
            return True
        return done is not None

    def crash(self, calls: int) -> None:
        """Die at this call inside a transaction, or after all of them; then restart."""
        with suppress(Died, TransientError):
            self.indexer.step(cast("Store", Brittle(self.indexer.store, calls)))
        self.restart()

    def restart(self, first: int = 0) -> None:
        """Restart with another endpoint as the preferred one."""
        urls = self.chain.urls
        self.indexer.restart([*urls[first:], *urls[:first]])
        self.auditor = Auditor(window_blocks=AUDITED)

    def plan(self) -> None:
        """Write intents for the reports that are due, as the planner does after signing."""
        with self.indexer.store.transaction() as uow:
            cursor = uow.cursor.get()
            for stored in uow.reports.list_due():
                as_of = stored.report.as_of
                request = CallRequest(
                    account=US,
                    contract=ORACLE,
                    kind=PUSH,
                    dedup_key=f"{stored.report.period}:{as_of.hash}",
                    calldata="0x",
                    period=stored.report.period,
                    as_of_block=as_of.number,
                    as_of_hash=as_of.hash,
                )
                uow.outbox.intents.add(request, Stamp(cursor.time if cursor else 0, 1))

    # --- invariants ---

    def quiesce(self) -> None:
        """Remove all faults, and run until nothing is left to do."""
        for provider in self.chain.providers:
            self.heal(provider)
            self.come_back(provider)
        # The blocks of a liar become final, and are verified again.
        self.mine(SETTLING, seconds=12)
        self._until(self.step, lambda: self.indexer.cursor == _place(self.chain))
        self._until(self.audit, lambda: not self.audit())

    def _until(self, turn: Callable[[], bool], is_done: Callable[[], bool]) -> None:
        """Step until nothing is left to do, with pauses for resting endpoints."""
        for _ in range(_MOST_TRIES):
            self.clock.advance(_A_LONG_WHILE)
            for _ in range(_STEPS_AT_MOST):
                self.clock.advance(1)
                if not turn():
                    break
            if is_done():
                return
        raise AssertionError(f"stands at {self.indexer.cursor}, the chain at {self.chain.head}")

    def check(self) -> None:
        """Check all guarantees of the index about a chain that does not grow."""
        assert self.indexer.canonical_logs() == self.chain.logs()
        assert self.indexer.gaps() == []
        self._check_headers()
        self._check_intents()
        rebuilt = rebuild_state(self.indexer.store, self.indexer.folder, RebuildOptions())
        assert rebuilt.is_same
        # A report that was cut before a lie was detected contains what was known then.
        assert rebuilt.differing == () or self.was_lied_to

    def _check_headers(self) -> None:
        hash_by_number = {block.number: block.hash for block in get_branch(self.chain.head)}
        with self.indexer.store.read_transaction() as uow:
            stored_headers = uow.blocks.list_canonical(0, self.chain.head.number)
        assert all(hash_by_number[block.number] == block.hash for block in stored_headers)

    def _check_intents(self) -> None:
        canonical = {block.hash for block in get_branch(self.chain.head)}
        with self.indexer.store.read_transaction() as uow:
            open_ = uow.outbox.intents.list_in_states(US, UNFINISHED_STATES)
        assert [
            intent.request.as_of_hash
            for intent in open_
            if intent.request.as_of_hash not in canonical
        ] == []


def _place(chain: FakeChain) -> tuple[int, str]:
    return chain.head.number, chain.head.hash
