"""Tracks which header features of a chain are proven by samples, or refuted by proof.

Some chains have zero blooms, others have invented receipts roots. Each chain has one
`Calibration`, whose findings persist over restarts. See
docs/explanation/verification.md#calibration.
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

# A feature is proven after this many valid blocks with logs, and refuted after this many invalid
# ones without a valid one.
SAMPLES = 20
# Seconds until a refuted feature is sampled again.
RETRY_SECONDS = 3600.0
# Seconds until the newest blocks are scanned again, if there were too few samples.
_SCAN_SECONDS = 600.0
# The same, while the answer of a provider is pending.
_UNDECIDED_SCAN_SECONDS = 10.0
# Fact-name suffix of a refuted feature that was sampled again recently.
_TRIED = "_tried"


class HeaderFeature(StrEnum):
    """A verifiable part of a header, or the signature of a transaction's sender."""

    BLOOM = "bloom"
    RECEIPTS = "receipts_root"
    TRANSACTIONS = "transactions_root"
    HEADER = "header_hash"
    SENDER = "sender"


for _feature in HeaderFeature:
    # Initialise the metric, so that alerts see a zero before the first increase.
    DEMOTED.labels(_feature)


@dataclass(slots=True)
class _State:
    """The sampled blocks, by hash; a block that was valid once stays valid.

    `undecided_blocks` were invalid at every endpoint that answered, while a provider did not
    answer. `refuted_at` is when the chain was last found not to have the feature, or None.
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
    """A block that contradicts its header, and the providers that did not answer about it."""

    feature: HeaderFeature
    block_hash: str
    unanswered_providers: tuple[str, ...]


@dataclass(slots=True)
class Calibration:
    """Counts samples, and decides which features of a chain's headers are valid; thread-safe.

    A feature that is valid in twenty blocks is proven, and stays so over restarts. Only a proof
    refutes it again (`refute`): endpoints that contradict it, however many, are refused. A feature
    that is valid in no block is refuted once every provider was queried.
    """

    clock: Callable[[], float] = time.monotonic
    keeper: CapabilityStore | None = None
    # Held during a scan of the newest blocks, so that other threads wait for it.
    scanning: Lock = field(default_factory=Lock, repr=False)
    _states: dict[HeaderFeature, _State] = field(default_factory=dict)
    # Providers that did not answer when the last samples were checked.
    _unanswered_providers: tuple[str, ...] = ()
    # Blocks that an operator accepted although a feature of their header is invalid.
    _accepted: set[tuple[HeaderFeature, str]] = field(default_factory=set)
    # The number of refutations in this process.
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
        """Return whether the feature was proven for the chain, and not refuted since."""
        with self._lock:
            return self._states[feature].is_proven

    def is_refuted(self, feature: HeaderFeature) -> bool:
        """Return whether the chain was found not to have the feature."""
        with self._lock:
            return self._states[feature].refuted_at is not None

    def is_open(self, feature: HeaderFeature) -> bool:
        """Return whether samples are needed: the feature is neither proven nor recently refuted.

        A refuted feature stays refuted while it is sampled again.
        """
        with self._lock:
            state = self._states[feature]
            if state.refuted_at is not None:
                return self.clock() - state.refuted_at >= RETRY_SECONDS
            return not state.is_proven

    def is_any_open(self, features: Iterable[HeaderFeature]) -> bool:
        """Return whether samples are needed for one of these features."""
        return any(self.is_open(feature) for feature in features)

    def wants_scan(self, features: Iterable[HeaderFeature]) -> bool:
        """Return whether the newest blocks should be scanned for samples now."""
        with self._lock:
            at = self._scanned_at
            pause = _SCAN_SECONDS if self.open_question() is None else _UNDECIDED_SCAN_SECONDS
            is_due = at is None or self.clock() - at >= pause
            return is_due and self.is_any_open(features)

    def scanned(self) -> None:
        """Record that the newest blocks were scanned."""
        self._scanned_at = self.clock()

    def is_new(self, block_hash: str, features: Iterable[HeaderFeature]) -> bool:
        """Return whether the block is a new sample of a feature that needs samples."""
        with self._lock:
            return any(self.is_open(t) and not self._is_seen(t, block_hash) for t in features)

    def record_sample(
        self,
        block_hash: str,
        found: Mapping[HeaderFeature, bool],
        unanswered_providers: Collection[str] = (),
    ) -> None:
        """Count one sample: which features of a block with logs were valid at any endpoint.

        An invalid sample decides nothing until all `unanswered_providers` have answered.
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
        """Return a block that contradicts its header while some providers have not answered.

        Return None if there is none, or if the feature is decided without it.
        """
        with self._lock:
            for feature, state in self._states.items():
                if state.undecided and not state.is_proven and state.refuted_at is None:
                    return UndecidedSample(
                        feature, min(state.undecided), self._unanswered_providers
                    )
            return None

    def decide(self) -> None:
        """Refute features without a valid sample, after newest and old blocks were sampled.

        If some samples are valid, the feature itself is not at fault: more samples will decide.
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
        """Treat a feature as proven: it refused a block, which is not yet explained."""
        with self._lock:
            if not self._states[feature].is_proven:
                self._states[feature] = _State(is_proven=True)
                self._show(feature)

    def accept(self, feature: HeaderFeature, block_hash: str) -> None:
        """Accept a block although this feature of it is invalid, as an operator decided."""
        with self._lock:
            self._accepted.add((feature, block_hash))

    def is_accepted(self, feature: HeaderFeature, block_hash: str) -> bool:
        """Return whether an operator accepted this block."""
        with self._lock:
            return (feature, block_hash) in self._accepted

    def demote(self, feature: HeaderFeature, why: str) -> None:
        """Refute a feature, until samples show it to be valid.

        `proof` is logged; a proven feature must not be refuted without a proof.
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
        """Return the findings as stored facts; a `Calibration` that starts with them is equal."""
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
        """Restore the feature that refused a block, and the operator's acceptances."""
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
        """Store a finding that does not expire."""
        self._show(feature)
        if self.keeper is not None:
            self.keeper.keep(OF_CHAIN, fact_of(feature), said, None)

    def _show(self, feature: HeaderFeature) -> None:
        CALIBRATED.labels(feature).set(self._states[feature].number())


def fact_of(feature: HeaderFeature) -> str:
    """Return the name of the stored fact about a feature."""
    return f"trust_{feature}"
