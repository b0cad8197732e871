"""Tracks which header features of a chain are valid or unsupported, based on samples.

The headers of some chains have blooms of zeros or invented receipts roots, which prove nothing.
Each chain has one `Calibration`, whose findings are stored. See
docs/explanation/verification.md#calibration.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock, RLock

from oracle.chain.verification.refused_blocks import ACCEPTED_PREFIX, REFUSAL_FACT, BlockRefusal
from oracle.errors import TransientError
from oracle.rpc.endpoints.probe import CHAIN_FACTS_KEY, CapabilityStore
from oracle.telemetry.indexer_metrics import CALIBRATED, DEMOTED
from oracle.telemetry.logger import get_logger

# A feature is proven once it is valid in this many blocks with logs. It is unsupported if it is
# invalid in this many blocks and valid in none.
REQUIRED_SAMPLES = 20
# An unsupported feature is sampled again after this many seconds.
RETRY_SECONDS = 3600.0
# The newest blocks are scanned again after this many seconds if there were too few samples.
_SCAN_SECONDS = 600.0
# The newest blocks are scanned again after this many seconds if a provider did not answer.
_UNDECIDED_SCAN_SECONDS = 10.0
# Suffix of the stored fact which says that an unsupported feature was recently sampled again.
_RECENTLY_TRIED_SUFFIX = "_tried"


class HeaderFeature(StrEnum):
    """A verifiable part of a header, or the signature of a transaction's sender."""

    BLOOM = "bloom"
    RECEIPTS = "receipts_root"
    TRANSACTIONS = "transactions_root"
    HEADER = "header_hash"
    SENDER = "sender"


for _feature in HeaderFeature:
    # The metric starts at zero, so that alerts detect the first increase.
    DEMOTED.labels(_feature)


@dataclass(slots=True)
class _FeatureState:
    """The sampled blocks of one header feature, by hash.

    A block that was valid once stays valid. `undecided_blocks` were invalid at every endpoint that
    answered, while a provider did not answer. `unsupported_since` is the time at which the feature
    was last found to be unsupported, or None.
    """

    valid_blocks: set[str] = field(default_factory=set)
    invalid_blocks: set[str] = field(default_factory=set)
    undecided_blocks: set[str] = field(default_factory=set)
    is_proven: bool = False
    unsupported_since: float | None = None

    def get_metric_value(self) -> int:
        if self.unsupported_since is not None:
            return -1
        return int(self.is_proven)


class CalibrationUndecidedError(TransientError):
    """A block contradicts its header, but a provider that may disagree has not answered."""

    def __init__(
        self, feature: HeaderFeature, block_hash: str, unanswered_providers: tuple[str, ...]
    ) -> None:
        self.block_hash = block_hash
        self.unanswered_providers = unanswered_providers
        providers = ", ".join(unanswered_providers) or "another provider"
        super().__init__(
            f"block {block_hash} does not match its header ({feature}), and {providers} does not "
            "answer; until then it is unknown whether the chain's headers prove anything"
        )


@dataclass(slots=True)
class Calibration:
    """Decides from samples which header features of a chain are valid.

    The object is thread-safe. A feature that is valid in twenty blocks is proven, and stays proven
    after a restart. Answers that contradict it are refused, however many endpoints return them.
    Only a proof can show that the chain does not support the feature after all
    (`mark_unsupported`). A feature that is valid in no sampled block is unsupported, provided that
    every provider was queried.
    """

    clock: Callable[[], float] = time.monotonic
    capability_store: CapabilityStore | None = None
    # The lock is held while the newest blocks are scanned, so that other threads wait for the
    # result.
    scan_lock: Lock = field(default_factory=Lock, repr=False)
    _state_by_feature: dict[HeaderFeature, _FeatureState] = field(default_factory=dict)
    # Providers that did not answer when the last samples were checked.
    _unanswered_providers: tuple[str, ...] = ()
    # Blocks that an operator accepted although a feature of their header is invalid.
    _accepted_blocks: set[tuple[HeaderFeature, str]] = field(default_factory=set)
    # Number of times that this process has marked a feature as unsupported.
    demotion_count: int = 0
    _scanned_at: float | None = None
    _lock: RLock = field(default_factory=RLock, repr=False)

    def __post_init__(self) -> None:
        stored_facts = (
            {}
            if self.capability_store is None
            else self.capability_store.load_facts(CHAIN_FACTS_KEY)
        )
        for feature in HeaderFeature:
            stored_value = stored_facts.get(get_feature_fact_name(feature))
            is_tried = get_feature_fact_name(feature) + _RECENTLY_TRIED_SUFFIX in stored_facts
            unsupported_since = self.clock() - (0.0 if is_tried else RETRY_SECONDS)
            self._state_by_feature[feature] = _FeatureState(
                is_proven=stored_value == "right",
                unsupported_since=unsupported_since if stored_value == "wrong" else None,
            )
            self._update_metric(feature)
        self._restore_refusals(stored_facts)

    def is_proven(self, feature: HeaderFeature) -> bool:
        """Return whether the header feature was proven for the chain and not refuted later."""
        with self._lock:
            return self._state_by_feature[feature].is_proven

    def is_unsupported(self, feature: HeaderFeature) -> bool:
        """Return whether the chain was found to lack this header feature."""
        with self._lock:
            return self._state_by_feature[feature].unsupported_since is not None

    def needs_samples(self, feature: HeaderFeature) -> bool:
        """Return whether the feature needs more samples.

        This is the case if it is neither proven nor was recently found to be unsupported. An
        unsupported feature stays unsupported while it is sampled again.
        """
        with self._lock:
            state = self._state_by_feature[feature]
            if state.unsupported_since is not None:
                return self.clock() - state.unsupported_since >= RETRY_SECONDS
            return not state.is_proven

    def needs_any_samples(self, features: Iterable[HeaderFeature]) -> bool:
        return any(self.needs_samples(feature) for feature in features)

    def is_scan_due(self, features: Iterable[HeaderFeature]) -> bool:
        """Return whether it is time to scan the newest blocks for samples."""
        with self._lock:
            scanned_at = self._scanned_at
            interval_seconds = (
                _SCAN_SECONDS if self.find_undecided_error() is None else _UNDECIDED_SCAN_SECONDS
            )
            is_due = scanned_at is None or self.clock() - scanned_at >= interval_seconds
            return is_due and self.needs_any_samples(features)

    def mark_scanned(self) -> None:
        """Record that the newest blocks were scanned."""
        self._scanned_at = self.clock()

    def is_new_sample(self, block_hash: str, features: Iterable[HeaderFeature]) -> bool:
        """Return whether a block is a new sample of a feature that needs samples."""
        with self._lock:
            return any(
                self.needs_samples(feature) and not self._is_block_sampled(feature, block_hash)
                for feature in features
            )

    def record_sample(
        self,
        block_hash: str,
        validity_by_feature: Mapping[HeaderFeature, bool],
        unanswered_providers: Collection[str] = (),
    ) -> None:
        """Record which header features of a block were valid at any endpoint.

        The block has logs. An invalid sample does not count until all `unanswered_providers` have
        answered.
        """
        with self._lock:
            self._unanswered_providers = (
                tuple(sorted(unanswered_providers)) or self._unanswered_providers
            )
            for feature, is_valid in validity_by_feature.items():
                if self.needs_samples(feature) and not self._is_block_sampled(feature, block_hash):
                    if is_valid or not unanswered_providers:
                        self._count_sample(feature, block_hash, is_valid=is_valid)
                    else:
                        self._state_by_feature[feature].undecided_blocks.add(block_hash)

    def find_undecided_error(self) -> CalibrationUndecidedError | None:
        """Return an error if a block contradicts its header and a provider has not answered.

        The result is None if there is no such block, or if it is not needed to judge the feature.
        """
        with self._lock:
            for feature, state in self._state_by_feature.items():
                if (
                    state.undecided_blocks
                    and not state.is_proven
                    and state.unsupported_since is None
                ):
                    return CalibrationUndecidedError(
                        feature, min(state.undecided_blocks), self._unanswered_providers
                    )
            return None

    def mark_unsupported_features(self) -> None:
        """Mark features as unsupported if all of at least twenty samples are invalid.

        A feature that is valid in some samples is left undecided until there are more samples.
        """
        with self._lock:
            for feature, state in self._state_by_feature.items():
                if not self.needs_samples(feature):
                    continue
                if state.unsupported_since is not None:
                    state.unsupported_since = self.clock()
                    self._store_unsupported(feature)
                elif not state.valid_blocks and len(state.invalid_blocks) >= REQUIRED_SAMPLES:
                    self.mark_unsupported(
                        feature, f"invalid in all {len(state.invalid_blocks)} blocks with logs"
                    )

    def assume_feature_proven(self, feature: HeaderFeature) -> None:
        """Treat a header feature as proven after a block that contradicts it was refused."""
        with self._lock:
            if not self._state_by_feature[feature].is_proven:
                self._state_by_feature[feature] = _FeatureState(is_proven=True)
                self._update_metric(feature)

    def accept_block(self, feature: HeaderFeature, block_hash: str) -> None:
        """Record that an operator accepted a block despite an invalid header feature."""
        with self._lock:
            self._accepted_blocks.add((feature, block_hash))

    def is_accepted(self, feature: HeaderFeature, block_hash: str) -> bool:
        """Return whether an operator accepted this block."""
        with self._lock:
            return (feature, block_hash) in self._accepted_blocks

    def mark_unsupported(self, feature: HeaderFeature, proof: str) -> None:
        """Mark a feature as unsupported until samples show that it is valid.

        `proof` is logged. It is required because a feature that was proven may be marked.
        """
        with self._lock:
            was_proven = self._state_by_feature[feature].is_proven
            self._state_by_feature[feature] = _FeatureState(unsupported_since=self.clock())
            self._store_unsupported(feature)
            self.demotion_count += 1
        if was_proven:
            DEMOTED.labels(feature).inc()
            get_logger().error("verification_downgraded", feature=feature.value, why=proof)

    def collect_facts(self) -> dict[str, str]:
        """Return the findings as facts from which the calibration can be restored."""
        with self._lock:
            facts = {
                get_feature_fact_name(feature): "right" if state.is_proven else "wrong"
                for feature, state in self._state_by_feature.items()
                if state.is_proven or state.unsupported_since is not None
            }
            facts |= {
                get_feature_fact_name(feature) + _RECENTLY_TRIED_SUFFIX: ""
                for feature, state in self._state_by_feature.items()
                if state.unsupported_since is not None and not self.needs_samples(feature)
            }
            acceptance_facts = {
                f"{ACCEPTED_PREFIX}{check} {block_hash}": ""
                for check, block_hash in self._accepted_blocks
            }
            return facts | acceptance_facts

    def _restore_refusals(self, stored_facts: Mapping[str, str]) -> None:
        """Restore the stored refusal of a block, and the blocks accepted by an operator.

        The header feature that a refused block contradicts is treated as proven.
        """
        if REFUSAL_FACT in stored_facts and (
            check := BlockRefusal.from_json(stored_facts[REFUSAL_FACT]).check
        ) in set(HeaderFeature):
            self.assume_feature_proven(HeaderFeature(check))
        for name in stored_facts:
            check, _, block_hash = name.removeprefix(ACCEPTED_PREFIX).partition(" ")
            if name.startswith(ACCEPTED_PREFIX) and check in set(HeaderFeature):
                self.accept_block(HeaderFeature(check), block_hash)

    def _is_block_sampled(self, feature: HeaderFeature, block_hash: str) -> bool:
        state = self._state_by_feature[feature]
        return block_hash in state.valid_blocks or block_hash in state.invalid_blocks

    def _count_sample(self, feature: HeaderFeature, block_hash: str, *, is_valid: bool) -> None:
        state = self._state_by_feature[feature]
        (state.valid_blocks if is_valid else state.invalid_blocks).add(block_hash)
        state.undecided_blocks.discard(block_hash)
        if len(state.valid_blocks) >= REQUIRED_SAMPLES:
            self._state_by_feature[feature] = _FeatureState(is_proven=True)
            self._store_finding(feature, "right")

    def _store_unsupported(self, feature: HeaderFeature) -> None:
        self._store_finding(feature, "wrong")
        if self.capability_store is not None:
            self.capability_store.save_fact(
                CHAIN_FACTS_KEY,
                get_feature_fact_name(feature) + _RECENTLY_TRIED_SUFFIX,
                "",
                RETRY_SECONDS,
            )

    def _store_finding(self, feature: HeaderFeature, finding: str) -> None:
        """Store a finding that does not expire."""
        self._update_metric(feature)
        if self.capability_store is not None:
            self.capability_store.save_fact(
                CHAIN_FACTS_KEY, get_feature_fact_name(feature), finding, None
            )

    def _update_metric(self, feature: HeaderFeature) -> None:
        CALIBRATED.labels(feature).set(self._state_by_feature[feature].get_metric_value())


def get_feature_fact_name(feature: HeaderFeature) -> str:
    """Return the name under which a feature's fact is stored."""
    return f"trust_{feature}"
