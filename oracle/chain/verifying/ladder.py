"""Climbs the ladder of chain.md 3.9 with a window: headers, receipts (L4) and blooms (L3).

What the receipts prove is taken in place of what the endpoint gave.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from oracle.chain.endpoint import Endpoint
from oracle.chain.failures import EndpointError, Kind
from oracle.chain.habits import EveryHabit
from oracle.chain.logs import Filter, checked
from oracle.chain.verifying.ascent import Ascent, ContradictionError, Reached, note_missing
from oracle.chain.verifying.blooms import Blooms
from oracle.chain.verifying.callers import is_complete
from oracle.chain.verifying.comparing import are_all, is_hashed_right, judged, root_of
from oracle.chain.verifying.receipts import Receipts, receipts
from oracle.chain.verifying.sealed import Sealed, sealed
from oracle.chain.verifying.trust import SAMPLES, Trait, Trust
from oracle.domain.block import BlockRange
from oracle.domain.logs import Log
from oracle.domain.verification import Level

# Samples are fetched so many at a time: most often the first ones tell.
_SAMPLED_TOGETHER = 10
# How many of the newest headers are looked at: one batch.
_SCANNED, _SCANNED_WHOLE = 100, 40


@dataclass(frozen=True, slots=True)
class Ladder:
    """Judges the answers for one filter by what a chain's headers are worth."""

    wanted: Filter
    trust: Trust
    habits: EveryHabit
    blooms: Blooms
    # Called with an endpoint and what it was found out by.
    accuse: Callable[[Endpoint, str], None]
    # Whether blocks are read with their transactions.
    reads_whole: bool = False

    @property
    def traits(self) -> frozenset[Trait]:
        """What there is to prove of the chain."""
        kinds = {Trait.RECEIPTS, Trait.BLOOM, Trait.HEADER}
        return frozenset(kinds | {Trait.TRANSACTIONS} if self.reads_whole else kinds)

    def allowed(self, top: Level) -> Level:
        """Return the highest level that can be reached now, of those up to `top`."""
        if top >= Level.PROVEN and self.trust.has(Trait.RECEIPTS):
            return Level.PROVEN
        if top >= Level.BLOOMED and self.trust.has(Trait.BLOOM):
            return Level.BLOOMED
        return min(top, Level.PINNED)

    def climb(self, ascent: Ascent) -> Reached:
        """Prove what can be proven.

        Raises:
            ContradictionError: the endpoint contradicts a header.
            EndpointError: it left logs out that another one has, or does not give what is needed.
        """
        base = Level.PINNED if ascent.pinned else Level.SEAMED
        reached = Reached.start(ascent.blocks, ascent.logs, base)
        if ascent.top >= Level.BLOOMED:
            self._check_headers(ascent)
        if ascent.top >= Level.PROVEN:
            self._learn(ascent, reached)
            self._prove(ascent, reached)
        if ascent.top >= Level.BLOOMED and self.trust.has(Trait.BLOOM):
            self.blooms.sift(ascent, reached)
        if ascent.calls is not None:
            self._count_calls(ascent, reached)
        return reached

    # --- headers ---

    def _check_headers(self, ascent: Ascent) -> None:
        if not self.trust.has(Trait.HEADER):
            return
        for one in ascent.blocks:
            if not is_hashed_right(one):
                words = "its header has another hash"
                raise ContradictionError(ascent.name, Trait.HEADER, one, words)

    # --- samples ---

    def scan(self, endpoint: Endpoint) -> None:
        """Take samples of the newest blocks, where they are wanted and it was not done lately.

        Raises:
            EndpointError: it does not give its newest headers.
        """
        if not self.trust.wants_scan(self.traits):
            return
        newest, most = endpoint.newest, _SCANNED_WHOLE if self.reads_whole else _SCANNED
        last = range(max(0, newest - most + 1), newest + 1)
        recent = sealed(endpoint, last, full=self.reads_whole)
        chosen = [one for one in reversed(recent) if one and not one.is_without_transactions]
        self.sample(endpoint, chosen)

    def sample(self, endpoint: Endpoint, blocks: Iterable[Sealed]) -> None:
        """Recompute what these blocks' headers say of their receipts, and remember what was right.

        An endpoint that gives no receipts shows nothing.
        """
        fresh = [one for one in blocks if self.trust.is_new(one.block.hash, self.traits)]
        for first in range(0, min(len(fresh), 2 * SAMPLES), _SAMPLED_TOGETHER):
            part = fresh[first : first + _SAMPLED_TOGETHER]
            try:
                for one, given in receipts(endpoint, self.habits.of(endpoint.name), part):
                    if any(receipt.logs for receipt in given):
                        self.trust.judge(one.block.hash, self._judged(one, given))
            except EndpointError:
                return
            if not self.trust.is_any_open(self.traits):
                return

    def _judged(self, one: Sealed, given: Receipts) -> dict[Trait, bool]:
        found = judged(one, given)
        return {**found, Trait.TRANSACTIONS: is_complete(one)} if self.reads_whole else found

    def _learn(self, ascent: Ascent, reached: Reached) -> None:
        """Take samples where they are wanted; blocks with our logs are good ones."""
        if self.trust.is_any_open(self.traits):
            chosen = [one for one in ascent.blocks if one.block.number in reached.logs]
            self.sample(ascent.endpoint, chosen)

    # --- receipts ---

    def _see_held(self, ascent: Ascent) -> None:
        """Where receipts prove nothing, see at least that the endpoint still has them.

        Raises:
            EndpointError: it has forgotten what is in a block, which is not to be taken for empty.
        """
        held = [one for one in ascent.blocks if one.block.number in ascent.must][:1]
        try:
            list(receipts(ascent.endpoint, self.habits.of(ascent.name), held))
        except EndpointError as error:
            if error.kind in {Kind.NOT_THERE, Kind.PRUNED}:
                raise

    def _prove(self, ascent: Ascent, reached: Reached) -> None:
        if not self.trust.has(Trait.RECEIPTS):
            self._see_held(ascent)
            return
        chosen = []
        calls: Mapping[int, object] = ascent.calls or {}
        for one in ascent.blocks:
            number = one.block.number
            has_some = number in reached.logs or number in calls
            if one.is_without_transactions and not has_some:
                reached.levels[number] = Level.PROVEN
            elif has_some or number in ascent.must or self.blooms.may_hide(one):
                chosen.append(one)
        habits = self.habits.of(ascent.name)
        for one, given in receipts(ascent.endpoint, habits, chosen):
            if root_of(given) != one.receipts_root:
                words = "its receipts do not make the root of its header"
                raise ContradictionError(ascent.name, Trait.RECEIPTS, one, words)
            self._take(ascent, one, given, reached)

    def _take(self, ascent: Ascent, one: Sealed, given: Receipts, reached: Reached) -> None:
        """Take logs, and whether calls succeeded, from receipts that are the block's own."""
        number = one.block.number
        said = reached.logs.get(number, [])
        calls = (ascent.calls or {}).get(number, ())
        ours = {
            tx for tx, receipt in enumerate(given) if any(map(self.wanted.passes, receipt.logs))
        }
        _see_names(ascent.name, one, given, ours.union(call.tx for call in calls))
        if not are_all(said, given, self.wanted):
            true = self._logs_in(ascent.name, one, given)
            if said != true:
                note_missing(ascent.name, sum(log not in said for log in true))
                self.accuse(ascent.endpoint, "logs")
                reached.repair(number, true)
        for call in calls:
            call.succeeded = given[call.tx].succeeded
        reached.settled.add(number)
        reached.levels[number] = Level.PROVEN

    def _logs_in(self, endpoint: str, one: Sealed, given: Receipts) -> list[Log]:
        """Take the logs from the receipts; that they name their block too is not proven by it."""
        number = one.block.number
        answers = [log for receipt in given for log in receipt.logs if self.wanted.passes(log)]
        try:
            logs = checked(answers, BlockRange(number, number), self.wanted)
        except ValueError as error:
            raise EndpointError(endpoint, Kind.INVALID, f"receipts: {error}") from None
        for log in logs:
            if log.block_hash != one.block.hash:
                raise EndpointError(endpoint, Kind.INVALID, f"receipts of another block {number}")
            log.time = one.block.time
        return logs

    # --- calls ---

    def _count_calls(self, ascent: Ascent, reached: Reached) -> None:
        """Let no block count as proven whose transactions were not; see `callers`."""
        for one in ascent.blocks:
            number = one.block.number
            if not reached.is_proven(number) or one.is_without_transactions:
                continue
            if self.trust.has(Trait.TRANSACTIONS) and not is_complete(one):
                words = "its transactions do not make the root of its header"
                raise ContradictionError(ascent.name, Trait.TRANSACTIONS, one, words)
            if not self.trust.has(Trait.TRANSACTIONS):
                reached.lower(number, Level.BLOOMED)


def _see_names(endpoint: str, one: Sealed, given: Receipts, places: Iterable[int]) -> None:
    """See that receipts at these places are named as the block's transactions are.

    Raises:
        EndpointError: they are not, or there are none.
    """
    try:
        names = one.tx_hashes()
    except ValueError as error:
        raise EndpointError(endpoint, Kind.INVALID, str(error)) from None
    for tx in places:
        told = tx < min(len(given), len(names)) and (given[tx].transaction_hash, names[tx])
        if not told or told[0].lower() != told[1].lower():
            words = f"receipts and transactions of block {one.block.number} differ"
            raise EndpointError(endpoint, Kind.INVALID, words)
