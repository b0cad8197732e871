"""Which features of a chain's headers are true: proven by samples, and refuted by proof alone.

Blooms are zero on some chains, receipts roots made up on others. One chain has one `Calibration`;
its findings are kept from run to run. See docs/explanation/verification.md#calibration.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock, RLock

import structlog

from oracle.chain.verification.refused_blocks import ACCEPTED, REFUSAL, BlockRefusal
from oracle.rpc.endpoints.capabilities import OF_CHAIN, CapabilityStore
from oracle.telemetry.indexer_metrics import CALIBRATED, DEMOTED

# So many blocks with logs must be right; or so many wrong, and none right, of all that was
# looked at, before it is how the chain is.
SAMPLES = 20
# Until what was found wrong is tried again, in seconds.
RETRY_SECONDS = 3600.0
# Until the newest blocks are looked through again for samples, where there were too few.
_SCAN_SECONDS = 600.0
# The same, while a provider is waited for.
_UNDECIDED_SCAN_SECONDS = 10.0
# Beside a feature that was refuted: it was sampled again so lately.
_TRIED = "_tried"


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
    """The sampled blocks, by hash; a block that was right once stays so.

    `undecided` are blocks that were wrong of every endpoint that answered, while a provider did
    not. `refuted_at` is when the chain was last found not to have the feature, None: never.
    """

    right: set[str] = field(default_factory=set)
    wrong: set[str] = field(default_factory=set)
    undecided: set[str] = field(default_factory=set)
    is_proven: bool = False
    refuted_at: float | None = None

    def number(self) -> int:
        """Return the value of the metric."""
        if self.refuted_at is not None:
            return -1
        return int(self.is_proven)


@dataclass(frozen=True, slots=True)
class UndecidedSample:
    """A block that contradicts its header and that `unanswered_providers` did not answer about."""

    feature: HeaderFeature
    block_hash: str
    unanswered_providers: tuple[str, ...]


@dataclass(slots=True)
class Calibration:
    """Counts samples, and decides what a chain's headers are worth; used by several threads.

    A feature that comes out right of twenty blocks is proven, and stays so over restarts. A proof
    alone takes it back (`demote`): endpoints that contradict it, however many, are refused. A
    feature that no block shows to be right is refuted once every provider was asked.
    """

    clock: Callable[[], float] = time.monotonic
    keeper: CapabilityStore | None = None
    # Held while the newest blocks are looked through: whoever comes meanwhile waits for it.
    scanning: Lock = field(default_factory=Lock, repr=False)
    _states: dict[HeaderFeature, _State] = field(default_factory=dict)
    # The providers that did not answer about the last samples.
    _unanswered_providers: tuple[str, ...] = ()
    # The blocks that an operator takes as they are given, though a seal of theirs is wrong.
    _accepted: set[tuple[HeaderFeature, str]] = field(default_factory=set)
    # How often a feature was refuted, by this process.
    demotions: int = 0
    _scanned_at: float | None = None
    _lock: RLock = field(default_factory=RLock, repr=False)

    def __post_init__(self) -> None:
        kept = {} if self.keeper is None else self.keeper.recall(OF_CHAIN)
        for feature in HeaderFeature:
            said = kept.get(fact_of(feature))
            is_tried = fact_of(feature) + _TRIED in kept
            refuted_at = self.clock() - (0.0 if is_tried else RETRY_SECONDS)
            self._states[feature] = _State(
                is_proven=said == "right", refuted_at=refuted_at if said == "wrong" else None
            )
            self._show(feature)
        self._recall_refusals(kept)

    def has(self, feature: HeaderFeature) -> bool:
        """Return whether the feature was proven of the chain, and not refuted since."""
        with self._lock:
            return self._states[feature].is_proven

    def is_refuted(self, feature: HeaderFeature) -> bool:
        """Return whether the chain was found not to have the feature."""
        with self._lock:
            return self._states[feature].refuted_at is not None

    def is_open(self, feature: HeaderFeature) -> bool:
        """Return whether samples are wanted: neither proven, nor found wrong lately.

        A feature that was refuted stays refuted while it is sampled again.
        """
        with self._lock:
            state = self._states[feature]
            if state.refuted_at is not None:
                return self.clock() - state.refuted_at >= RETRY_SECONDS
            return not state.is_proven

    def is_any_open(self, features: Iterable[HeaderFeature]) -> bool:
        """Tell whether samples are wanted for one of these."""
        return any(self.is_open(feature) for feature in features)

    def wants_scan(self, features: Iterable[HeaderFeature]) -> bool:
        """Tell whether to look through the newest blocks for samples now; see `scanned`."""
        with self._lock:
            at = self._scanned_at
            pause = _SCAN_SECONDS if self.open_question() is None else _UNDECIDED_SCAN_SECONDS
            is_due = at is None or self.clock() - at >= pause
            return is_due and self.is_any_open(features)

    def scanned(self) -> None:
        """Note that the newest blocks were looked through."""
        self._scanned_at = self.clock()

    def is_new(self, block_hash: str, features: Iterable[HeaderFeature]) -> bool:
        """Tell whether this block was no sample yet of something that samples are wanted for."""
        with self._lock:
            return any(self.is_open(t) and not self._is_seen(t, block_hash) for t in features)

    def record_sample(
        self,
        block_hash: str,
        found: Mapping[HeaderFeature, bool],
        unanswered_providers: Collection[str] = (),
    ) -> None:
        """Count one sample: which features of a block with logs came out right, of any endpoint.

        A wrong sample decides nothing without the answers of `unanswered_providers`.
        """
        with self._lock:
            self._unanswered_providers = (
                tuple(sorted(unanswered_providers)) or self._unanswered_providers
            )
            for feature, is_right in found.items():
                if self.is_open(feature) and not self._is_seen(feature, block_hash):
                    if is_right or not unanswered_providers:
                        self._count(feature, block_hash, is_right=is_right)
                    else:
                        self._states[feature].undecided.add(block_hash)

    def open_question(self) -> UndecidedSample | None:
        """Return a block that contradicts its header, which not every provider was asked about.

        None: there is none, or what headers are worth is decided without it.
        """
        with self._lock:
            for feature, state in self._states.items():
                if state.undecided and not state.is_proven and state.refuted_at is None:
                    return UndecidedSample(
                        feature, min(state.undecided), self._unanswered_providers
                    )
            return None

    def decide(self) -> None:
        """Refute what no sample shows to be right, after a look at the newest and at old blocks.

        Where some are right, it is not the chain that is wrong: more samples will tell.
        """
        with self._lock:
            for feature, state in self._states.items():
                if not self.is_open(feature):
                    continue
                if state.refuted_at is not None:
                    state.refuted_at = self.clock()
                    self._keep_refuted(feature)
                elif not state.right and len(state.wrong) >= SAMPLES:
                    self.demote(feature, f"none of {len(state.wrong)} blocks with logs makes it")

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
        """Refute a feature, until samples show it to be right.

        `why` is the proof: of a feature that was proven, nothing less takes it back.
        """
        with self._lock:
            was_proven = self._states[feature].is_proven
            self._states[feature] = _State(refuted_at=self.clock())
            self._keep_refuted(feature)
            self.demotions += 1
        if was_proven:
            DEMOTED.labels(feature).inc()
            structlog.get_logger().error("verification_downgraded", feature=feature.value, why=why)

    def facts(self) -> dict[str, str]:
        """Return what is known, as a keeper recalls it: who begins with it believes the same."""
        with self._lock:
            known = {
                fact_of(feature): "right" if state.is_proven else "wrong"
                for feature, state in self._states.items()
                if state.is_proven or state.refuted_at is not None
            }
            known |= {
                fact_of(feature) + _TRIED: ""
                for feature, state in self._states.items()
                if state.refuted_at is not None and not self.is_open(feature)
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
        state.undecided.discard(block_hash)
        if len(state.right) >= SAMPLES:
            self._states[feature] = _State(is_proven=True)
            self._keep(feature, "right")

    def _keep_refuted(self, feature: HeaderFeature) -> None:
        self._keep(feature, "wrong")
        if self.keeper is not None:
            self.keeper.keep(OF_CHAIN, fact_of(feature) + _TRIED, "", RETRY_SECONDS)

    def _keep(self, feature: HeaderFeature, said: str) -> None:
        """Store a finding that no time makes old."""
        self._show(feature)
        if self.keeper is not None:
            self.keeper.keep(OF_CHAIN, fact_of(feature), said, None)

    def _show(self, feature: HeaderFeature) -> None:
        CALIBRATED.labels(feature).set(self._states[feature].number())


def fact_of(feature: HeaderFeature) -> str:
    """Return the name under which it is kept what this feature is worth."""
    return f"trust_{feature}"
