"""Which of a chain's seals are worth anything: believed only after proof, and no longer (3.9).

Blooms are zero on some chains, receipts roots made up on others (chain.md 0, finding 3). One chain
has one `Trust`; what it has found out is kept from run to run.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from threading import RLock

import structlog

from oracle.chain.providers.facts import DAY, FactKeeper
from oracle.telemetry.verify_metrics import DEMOTED, TRUST

# So many blocks with logs must be right, all of them.
SAMPLES = 20
# Until what was found wrong is tried again, in seconds.
RETRY_SECONDS = 3600.0
# Until the newest blocks are looked through again for samples, where there were too few.
_SCAN_SECONDS = 600.0
# One block that contradicts, as told by so many endpoints, or so often by one, is the chain's way.
_WITNESSES, _TIMES = 2, 3
# Facts of the chain, and not of an endpoint, stand under this name.
_CHAIN = ""


class Trait(StrEnum):
    """What a header says of its block, and a signature of who sent a transaction."""

    BLOOM = "bloom"
    RECEIPTS = "receipts_root"
    TRANSACTIONS = "transactions_root"
    HEADER = "header_hash"
    SENDER = "sender"


for _trait in Trait:
    # Alerts see a zero before the first.
    DEMOTED.labels(_trait)


@dataclass(slots=True)
class _State:
    """`right` counts samples that were; `tried_at` is when one was wrong, None: none was."""

    right: int = 0
    tried_at: float | None = None

    @property
    def is_proven(self) -> bool:
        return self.tried_at is None and self.right >= SAMPLES

    def number(self) -> int:
        """Return what the metric shows."""
        if self.tried_at is not None:
            return -1
        return int(self.is_proven)


@dataclass(slots=True)
class Trust:
    """Counts samples, and forgets a trait that was wrong; used by several threads."""

    clock: Callable[[], float] = time.monotonic
    keeper: FactKeeper | None = None
    _states: dict[Trait, _State] = field(default_factory=dict)
    # The blocks sampled: none counts twice.
    _seen: set[tuple[Trait, str]] = field(default_factory=set)
    # Who contradicted itself, by trait and block.
    _doubts: dict[tuple[Trait, str], list[str]] = field(default_factory=dict)
    _scanned_at: float | None = None
    _lock: RLock = field(default_factory=RLock, repr=False)

    def __post_init__(self) -> None:
        kept = {} if self.keeper is None else self.keeper.recall(_CHAIN)
        for trait in Trait:
            said = kept.get(_key(trait))
            tried_at = self.clock() if said == "wrong" else None
            self._states[trait] = _State(SAMPLES if said == "right" else 0, tried_at)
            self._show(trait)

    def has(self, trait: Trait) -> bool:
        """Tell whether this was proven of the chain, and never wrong since."""
        with self._lock:
            return self._states[trait].is_proven

    def is_open(self, trait: Trait) -> bool:
        """Tell whether samples are wanted: neither proven, nor wrong of late."""
        with self._lock:
            state = self._states[trait]
            if state.tried_at is not None and self.clock() - state.tried_at >= RETRY_SECONDS:
                self._states[trait] = state = _State()
                self._seen = {seen for seen in self._seen if seen[0] != trait}
            return state.tried_at is None and not state.is_proven

    def is_any_open(self, traits: Iterable[Trait]) -> bool:
        """Tell whether samples are wanted for one of these."""
        return any(self.is_open(trait) for trait in traits)

    def wants_scan(self, traits: Iterable[Trait]) -> bool:
        """Tell whether to look for samples now; whoever is told yes does it."""
        with self._lock:
            now = self.clock()
            is_due = self._scanned_at is None or now - self._scanned_at >= _SCAN_SECONDS
            if not is_due or not self.is_any_open(traits):
                return False
            self._scanned_at = now
            return True

    def is_new(self, block_hash: str, traits: Iterable[Trait]) -> bool:
        """Tell whether this block was no sample yet of something that samples are wanted for."""
        with self._lock:
            return any(self.is_open(t) and (t, block_hash) not in self._seen for t in traits)

    def judge(self, block_hash: str, found: Mapping[Trait, bool]) -> None:
        """Take one sample in: which traits of a block with logs came out right."""
        with self._lock:
            for trait, is_right in found.items():
                if self.is_open(trait) and (trait, block_hash) not in self._seen:
                    self._seen.add((trait, block_hash))
                    self._count(trait, is_right=is_right)

    def doubt(self, trait: Trait, block_hash: str, endpoint: str) -> bool:
        """Note that an endpoint contradicted a proven trait; tell whether the trait is lost now.

        It is, where a second endpoint says the same of the block, or the only one says it again
        and again: then it is not a lie, but how the chain is. Against a signature no endpoint's
        word counts alone, however often it is said.
        """
        with self._lock:
            told = self._doubts.setdefault((trait, block_hash), [])
            told.append(endpoint)
            times = len(told) if trait != Trait.SENDER else 0
            if len(set(told)) < _WITNESSES and times < _TIMES:
                return False
            self.demote(trait, f"block {block_hash}, says {', '.join(sorted(set(told)))}")
            return True

    def settle(self) -> None:
        """Forget doubts: another endpoint has proven that they were lies."""
        with self._lock:
            self._doubts.clear()

    def demote(self, trait: Trait, why: str) -> None:
        """Believe this trait no more, until samples are taken again."""
        with self._lock:
            was_proven = self._states[trait].is_proven
            self._states[trait] = _State(tried_at=self.clock())
            self._doubts.clear()
            self._keep(trait, "wrong", RETRY_SECONDS)
        if was_proven:
            DEMOTED.labels(trait).inc()
            structlog.get_logger().error(
                "the chain's headers are not what they were", trait=trait.value, why=why
            )

    def _count(self, trait: Trait, *, is_right: bool) -> None:
        state = self._states[trait]
        if not is_right:
            state.right, state.tried_at = 0, self.clock()
            self._keep(trait, "wrong", RETRY_SECONDS)
            return
        state.right += 1
        if state.is_proven:
            self._keep(trait, "right", DAY)
        self._show(trait)

    def _keep(self, trait: Trait, said: str, seconds: float) -> None:
        self._show(trait)
        if self.keeper is not None:
            self.keeper.keep(_CHAIN, _key(trait), said, seconds)

    def _show(self, trait: Trait) -> None:
        TRUST.labels(trait).set(self._states[trait].number())


def _key(trait: Trait) -> str:
    return f"trust_{trait}"
