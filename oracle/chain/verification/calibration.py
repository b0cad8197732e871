"""Which of a chain's seals are worth anything: believed only after proof, and no longer.

Blooms are zero on some chains, receipts roots made up on others
(docs/explanation/verification.md#calibration). One chain has one `Calibration`; what it has found
out is kept from run to run. See docs/explanation/verification.md#calibration.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock, RLock

import structlog

from oracle.chain.verification.refused_blocks import ACCEPTED, REFUSAL, BlockRefusal
from oracle.rpc.endpoints.capabilities import DAY, OF_CHAIN, CapabilityStore
from oracle.telemetry.indexer_metrics import CALIBRATED, DEMOTED

# So many blocks with logs must be right; or so many wrong, and none right, of all that was
# looked at, before it is how the chain is.
SAMPLES = 20
# Until what was found wrong is tried again, in seconds.
RETRY_SECONDS = 3600.0
# Until the newest blocks are looked through again for samples, where there were too few.
_SCAN_SECONDS = 600.0
# So many endpoints that contradict a seal of one block by the same words are believed.
_WITNESSES = 2


class HeaderFeature(StrEnum):
    """What a header says of its block, and a signature of who sent a transaction."""

    BLOOM = "bloom"
    RECEIPTS = "receipts_root"
    TRANSACTIONS = "transactions_root"
    HEADER = "header_hash"
    SENDER = "sender"


for _feature in HeaderFeature:
    # Alerts see a zero before the first.
    DEMOTED.labels(_feature)


@dataclass(slots=True)
class _State:
    """The blocks, by hash, of which it came out right and wrong; one that was right stays so.

    `tried_at` is when it was found to be wrong of the chain, None: it was not.
    """

    right: set[str] = field(default_factory=set)
    wrong: set[str] = field(default_factory=set)
    is_proven: bool = False
    tried_at: float | None = None

    def number(self) -> int:
        """Return what the metric shows."""
        if self.tried_at is not None:
            return -1
        return int(self.is_proven)


@dataclass(slots=True)
class Calibration:
    """Counts samples, and forgets a feature that the chain does not have; used by several threads.

    A seal that comes out right of twenty blocks is no accident: who contradicts it afterwards, or
    did before, speaks for himself. Only endpoints that say the same of one block can take it back.
    """

    clock: Callable[[], float] = time.monotonic
    keeper: CapabilityStore | None = None
    # Held while the newest blocks are looked through: whoever comes meanwhile waits for it.
    scanning: Lock = field(default_factory=Lock, repr=False)
    _states: dict[HeaderFeature, _State] = field(default_factory=dict)
    # What each endpoint said against a seal, by feature and block.
    _doubts: dict[tuple[HeaderFeature, str], dict[str, str]] = field(default_factory=dict)
    # The blocks that an operator takes as they are given, though a seal of theirs is wrong.
    _accepted: set[tuple[HeaderFeature, str]] = field(default_factory=set)
    _scanned_at: float | None = None
    _lock: RLock = field(default_factory=RLock, repr=False)

    def __post_init__(self) -> None:
        kept = {} if self.keeper is None else self.keeper.recall(OF_CHAIN)
        for feature in HeaderFeature:
            said = kept.get(fact_of(feature))
            tried_at = self.clock() if said == "wrong" else None
            self._states[feature] = _State(is_proven=said == "right", tried_at=tried_at)
            self._show(feature)
        self._recall_refusals(kept)

    def has(self, feature: HeaderFeature) -> bool:
        """Tell whether this was proven of the chain, and never taken back since."""
        with self._lock:
            return self._states[feature].is_proven

    def is_refuted(self, feature: HeaderFeature) -> bool:
        """Tell whether the chain was found not to have this."""
        with self._lock:
            return self._states[feature].tried_at is not None

    def is_open(self, feature: HeaderFeature) -> bool:
        """Tell whether samples are wanted: neither proven, nor found wrong of late."""
        with self._lock:
            state = self._states[feature]
            if state.tried_at is not None and self.clock() - state.tried_at >= RETRY_SECONDS:
                self._states[feature] = state = _State()
            return state.tried_at is None and not state.is_proven

    def is_any_open(self, features: Iterable[HeaderFeature]) -> bool:
        """Tell whether samples are wanted for one of these."""
        return any(self.is_open(feature) for feature in features)

    def wants_scan(self, features: Iterable[HeaderFeature]) -> bool:
        """Tell whether to look through the newest blocks for samples now; see `scanned`."""
        with self._lock:
            at = self._scanned_at
            is_due = at is None or self.clock() - at >= _SCAN_SECONDS
            return is_due and self.is_any_open(features)

    def scanned(self) -> None:
        """Note that the newest blocks were looked through."""
        self._scanned_at = self.clock()

    def is_new(self, block_hash: str, features: Iterable[HeaderFeature]) -> bool:
        """Tell whether this block was no sample yet of something that samples are wanted for."""
        with self._lock:
            return any(self.is_open(t) and not self._is_seen(t, block_hash) for t in features)

    def judge(self, block_hash: str, found: Mapping[HeaderFeature, bool]) -> None:
        """Take one sample in: which features of a block with logs came out right, by anyone."""
        with self._lock:
            for feature, is_right in found.items():
                if self.is_open(feature) and not self._is_seen(feature, block_hash):
                    self._count(feature, block_hash, is_right=is_right)

    def conclude(self) -> None:
        """Give up what no sample shows to be right, after a look at the newest and at old blocks.

        Where some are right, it is not the chain that is wrong: more samples will tell.
        """
        with self._lock:
            for feature, state in self._states.items():
                if self.is_open(feature) and not state.right and len(state.wrong) >= SAMPLES:
                    self.demote(feature, f"none of {len(state.wrong)} blocks with logs makes it")

    def doubt(self, feature: HeaderFeature, block_hash: str, endpoint: str, said: str) -> bool:
        """Note that an endpoint contradicted a proven feature; tell whether it is lost now.

        It is, where a second endpoint says the very same of the block: then it is not a lie, but
        how the chain is. One alone may say it for ever.
        """
        with self._lock:
            told = self._doubts.setdefault((feature, block_hash), {})
            told[endpoint] = said
            alike = sorted(name for name, words in told.items() if words == said)
            if len(alike) < _WITNESSES:
                return False
            self.demote(feature, f"block {block_hash}, say {', '.join(alike)}")
            return True

    def settle(self) -> None:
        """Forget doubts: another endpoint has proven that they were lies."""
        with self._lock:
            self._doubts.clear()

    def hold(self, feature: HeaderFeature) -> None:
        """Take a feature for proven: a block was refused by it, and nobody has explained that."""
        with self._lock:
            if not self._states[feature].is_proven:
                self._states[feature] = _State(is_proven=True)
                self._show(feature)

    def accept(self, feature: HeaderFeature, block_hash: str) -> None:
        """Let a block pass though this seal of its is wrong: an operator has said so."""
        with self._lock:
            self._accepted.add((feature, block_hash))

    def is_accepted(self, feature: HeaderFeature, block_hash: str) -> bool:
        """Tell whether an operator lets this block pass."""
        with self._lock:
            return (feature, block_hash) in self._accepted

    def demote(self, feature: HeaderFeature, why: str) -> None:
        """Believe this feature no more, until samples are taken again."""
        with self._lock:
            was_proven = self._states[feature].is_proven
            self._states[feature] = _State(tried_at=self.clock())
            self._doubts.clear()
            self._keep(feature, "wrong", RETRY_SECONDS)
        if was_proven:
            DEMOTED.labels(feature).inc()
            structlog.get_logger().error("calibration_lost", feature=feature.value, why=why)

    def facts(self) -> dict[str, str]:
        """Return what is known, as a keeper recalls it: who begins with it believes the same."""
        with self._lock:
            known = {
                fact_of(feature): "right" if state.is_proven else "wrong"
                for feature, state in self._states.items()
                if state.is_proven or state.tried_at is not None
            }
            taken = {f"{ACCEPTED}{check} {block_hash}": "" for check, block_hash in self._accepted}
            return known | taken

    def _recall_refusals(self, kept: Mapping[str, str]) -> None:
        """Hold on to what a block was refused by, and to what an operator has accepted."""
        if REFUSAL in kept and (check := BlockRefusal.from_json(kept[REFUSAL]).check) in set(
            HeaderFeature
        ):
            self.hold(HeaderFeature(check))
        for name in kept:
            check, _, block_hash = name.removeprefix(ACCEPTED).partition(" ")
            if name.startswith(ACCEPTED) and check in set(HeaderFeature):
                self.accept(HeaderFeature(check), block_hash)

    def _is_seen(self, feature: HeaderFeature, block_hash: str) -> bool:
        state = self._states[feature]
        return block_hash in state.right or block_hash in state.wrong

    def _count(self, feature: HeaderFeature, block_hash: str, *, is_right: bool) -> None:
        state = self._states[feature]
        (state.right if is_right else state.wrong).add(block_hash)
        if len(state.right) >= SAMPLES:
            self._states[feature] = _State(is_proven=True)
            self._keep(feature, "right", DAY)

    def _keep(self, feature: HeaderFeature, said: str, seconds: float) -> None:
        self._show(feature)
        if self.keeper is not None:
            self.keeper.keep(OF_CHAIN, fact_of(feature), said, seconds)

    def _show(self, feature: HeaderFeature) -> None:
        CALIBRATED.labels(feature).set(self._states[feature].number())


def fact_of(feature: HeaderFeature) -> str:
    """Return the name under which it is kept what this feature is worth."""
    return f"trust_{feature}"
