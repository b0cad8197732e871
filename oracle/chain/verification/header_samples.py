"""Finds out from samples which features of a chain's headers are valid.

Samples are taken before the first window is read, and later from blocks with logs. An invalid
sample is checked with every other provider, because the endpoint may have returned wrong data.
While a provider does not answer, the feature is undecided and no window is read. See
docs/explanation/verification.md#calibration.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from oracle.chain.verification.calibration import (
    REQUIRED_SAMPLES,
    Calibration,
    HeaderFeature,
)
from oracle.chain.verification.full_headers import FullHeader, fetch_full_headers
from oracle.chain.verification.header_check import compare_header_features
from oracle.chain.verification.receipt_fetch import Receipts, fetch_receipts
from oracle.chain.verification.transaction_check import has_valid_transactions_root
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# The number of samples per batch; one batch is usually enough.
_SAMPLE_BATCH = 10
# The number of headers per batch, without and with transactions.
_SCAN_BATCH, _FULL_SCAN_BATCH = 100, 40
# The number of older ranges to sample if the newest blocks yield too few samples.
_OLDER_RANGES = 4

# For each feature of a block, True if the feature is valid.
FeatureValidity = dict[HeaderFeature, bool]
# These errors mean that an endpoint lacks (old) receipts, so sampling does not wait for it.
_NO_RECEIPTS_ERRORS = frozenset({ErrorKind.UNSUPPORTED, ErrorKind.PRUNED, ErrorKind.NOT_THERE})


@dataclass(frozen=True, slots=True)
class HeaderSampler:
    """Samples block headers for one `Calibration`."""

    calibration: Calibration
    # A function that yields all endpoints except the named one, each after it has proven its
    # chain.
    iterate_others: Callable[[str], Iterable[Endpoint]]
    # A function that returns the providers other than the endpoint's own. All of them must be
    # queried.
    find_other_providers: Callable[[Endpoint], Collection[str]]
    # This is called with an endpoint that gave a wrong answer and the name of the failed check.
    report_endpoint: Callable[[Endpoint, str], None]
    # True if blocks are fetched with their transactions.
    reads_transactions: bool = False

    @property
    def features(self) -> frozenset[HeaderFeature]:
        """The features to sample on this chain."""
        sampled_features = {HeaderFeature.RECEIPTS, HeaderFeature.BLOOM, HeaderFeature.HEADER}
        return frozenset(
            sampled_features | {HeaderFeature.TRANSACTIONS}
            if self.reads_transactions
            else sampled_features
        )

    def scan_chain_for_samples(self, endpoint: Endpoint) -> None:
        """Sample the newest blocks, and older blocks if there are too few samples.

        Nothing is done if no samples are needed, or if the last scan is recent. If several threads
        read windows, all of them wait for the scan, so that the level of a window does not depend
        on timing.

        Raises:
            RpcError: the endpoint does not return its newest headers.
            CalibrationUndecidedError: see `sample_block_headers`.
        """
        if self.calibration.is_scan_due(self.features):
            self._scan_ranges(endpoint)
        self._raise_if_undecided()

    def _scan_ranges(self, endpoint: Endpoint) -> None:
        with self.calibration.scan_lock:
            if not self.calibration.is_scan_due(self.features):
                return
            newest_range, *older_ranges = _select_sample_ranges(
                endpoint.highest_block, self._batch_size
            )
            self._sample_heights(endpoint, newest_range, 2 * REQUIRED_SAMPLES)
            for heights in older_ranges:
                if not self.calibration.needs_any_samples(self.features):
                    break
                try:
                    self._sample_heights(endpoint, heights, _SAMPLE_BATCH)
                except RpcError:
                    # The endpoint may have pruned old blocks, so the newest must suffice.
                    break
            self.calibration.mark_unsupported_features()
            self.calibration.mark_scanned()

    def sample_block_headers(self, endpoint: Endpoint, blocks: Iterable[FullHeader]) -> None:
        """Sample the headers of blocks that have already been read.

        Raises:
            CalibrationUndecidedError: a block contradicts its header, and a provider does not
                answer.
        """
        self._record_samples(endpoint, blocks, 2 * REQUIRED_SAMPLES)
        self.calibration.mark_unsupported_features()
        self._raise_if_undecided()

    def _raise_if_undecided(self) -> None:
        error = self.calibration.find_undecided_error()
        if error is not None:
            raise error

    @property
    def _batch_size(self) -> int:
        return _FULL_SCAN_BATCH if self.reads_transactions else _SCAN_BATCH

    def _sample_heights(self, endpoint: Endpoint, heights: range, max_samples: int) -> None:
        headers = fetch_full_headers(endpoint, heights, with_transactions=self.reads_transactions)
        nonempty_headers = [
            header for header in reversed(headers) if header and not header.has_no_transactions
        ]
        self._record_samples(endpoint, nonempty_headers, max_samples)

    def _record_samples(
        self, endpoint: Endpoint, blocks: Iterable[FullHeader], max_samples: int
    ) -> None:
        """Check block headers against their receipts, and record the results.

        An endpoint that returns no receipts yields no samples.
        """
        new_headers = [
            header
            for header in blocks
            if self.calibration.is_new_sample(header.block.hash, self.features)
        ][:max_samples]
        for start in range(0, len(new_headers), _SAMPLE_BATCH):
            batch = new_headers[start : start + _SAMPLE_BATCH]
            try:
                self._count_samples(endpoint, list(self._check_blocks(endpoint, batch)))
            except RpcError:
                return
            if not self.calibration.needs_any_samples(self.features):
                return

    def _check_blocks(
        self, endpoint: Endpoint, blocks: Sequence[FullHeader]
    ) -> Iterator[tuple[FullHeader, FeatureValidity]]:
        """Check each block with logs, and yield which features match its receipts."""
        for header, block_receipts in fetch_receipts(endpoint, blocks):
            if any(receipt.logs for receipt in block_receipts):
                yield header, self._compare_features(header, block_receipts)

    def _compare_features(self, header: FullHeader, block_receipts: Receipts) -> FeatureValidity:
        validity_by_feature = compare_header_features(header, block_receipts)
        if self.reads_transactions:
            return {
                **validity_by_feature,
                HeaderFeature.TRANSACTIONS: has_valid_transactions_root(header),
            }
        return validity_by_feature

    def _count_samples(
        self, endpoint: Endpoint, samples: Sequence[tuple[FullHeader, FeatureValidity]]
    ) -> None:
        """Record samples, after querying other providers about invalid ones.

        A feature counts as invalid only if no provider returns valid data.
        """
        open_features = [
            feature for feature in self.features if self.calibration.needs_samples(feature)
        ]
        invalid_headers = [
            header
            for header, validity in samples
            if not all(validity[feature] for feature in open_features)
        ]
        provider_answers = self._query_other_providers(endpoint, invalid_headers, open_features)
        for header, validity in samples:
            other_validity = provider_answers.validity_by_block.get(header.block.hash, {})
            for feature in open_features:
                if other_validity.get(feature) and not validity[feature]:
                    self.report_endpoint(endpoint, feature)
            best_validity = {
                feature: validity[feature] or other_validity.get(feature, False)
                for feature in validity
            }
            self.calibration.record_sample(
                header.block.hash,
                best_validity,
                provider_answers.unanswered_providers.get(header.block.hash, frozenset()),
            )

    def _query_other_providers(
        self,
        sampled_endpoint: Endpoint,
        blocks: Sequence[FullHeader],
        features: Collection[HeaderFeature],
    ) -> "_ProviderAnswers":
        """Query other endpoints about blocks until each feature is found to be valid."""
        answers = _ProviderAnswers()
        if not blocks:
            return answers
        expected_providers = frozenset(self.find_other_providers(sampled_endpoint))
        answers.unanswered_providers = {header.block.hash: expected_providers for header in blocks}
        remaining_blocks = list(blocks)
        for other_endpoint in self.iterate_others(sampled_endpoint.name):
            try:
                block_numbers = [header.block.number for header in remaining_blocks]
                other_headers = fetch_full_headers(
                    other_endpoint, block_numbers, with_transactions=self.reads_transactions
                )
                remaining_hashes = {header.block.hash for header in remaining_blocks}
                matching_headers = [
                    header
                    for header in other_headers
                    if header is not None and header.block.hash in remaining_hashes
                ]
                for header, validity in self._check_blocks(other_endpoint, matching_headers):
                    answers.merge_answer(header.block.hash, validity)
                # A provider that has pruned the receipts still counts as having answered.
                answers.record_answer(
                    other_endpoint.provider, [header.block.hash for header in matching_headers]
                )
            except RpcError as error:
                if error.kind in _NO_RECEIPTS_ERRORS:
                    answers.record_answer(other_endpoint.provider, answers.unanswered_providers)
                continue
            remaining_blocks = [
                header
                for header in remaining_blocks
                if not answers.are_all_valid(header.block.hash, features)
            ]
            if not remaining_blocks:
                break
        return answers


@dataclass(slots=True)
class _ProviderAnswers:
    """The results of other endpoints by block hash, and which providers did not answer."""

    validity_by_block: dict[str, FeatureValidity] = field(default_factory=dict)
    unanswered_providers: dict[str, frozenset[str]] = field(default_factory=dict)

    def merge_answer(self, block_hash: str, validity: FeatureValidity) -> None:
        """Merge the result for a block.

        A feature is valid if any endpoint's data is valid.
        """
        merged_validity = self.validity_by_block.setdefault(
            block_hash, dict.fromkeys(validity, False)
        )
        for feature, is_right in validity.items():
            merged_validity[feature] = merged_validity[feature] or is_right

    def record_answer(self, provider: str, hashes: Collection[str]) -> None:
        """Record that a provider answered about these blocks, or lacks their receipts."""
        self.unanswered_providers = {
            block_hash: remaining_providers - {provider}
            if block_hash in hashes
            else remaining_providers
            for block_hash, remaining_providers in self.unanswered_providers.items()
        }

    def are_all_valid(self, block_hash: str, features: Collection[HeaderFeature]) -> bool:
        """Return whether all of these features were found to be valid."""
        validity = self.validity_by_block.get(block_hash, {})
        return all(validity.get(feature) for feature in features)


def _select_sample_ranges(newest_block: int, range_size: int) -> list[range]:
    """Select the range of the newest heights, and evenly spaced ranges below it."""
    range_ends = [
        newest_block - newest_block * step // (_OLDER_RANGES + 1)
        for step in range(_OLDER_RANGES + 1)
    ]
    sample_ranges = [range(max(0, end - range_size + 1), end + 1) for end in range_ends]
    # On a short chain, ranges that would overlap the newest one are left out.
    return [
        heights
        for position, heights in enumerate(sample_ranges)
        if position == 0 or heights.stop < sample_ranges[0].start
    ]
