"""Verifies a window in steps: by headers, by receipts (L4) and by blooms (L3).

Logs that are proven by receipts replace the logs that the endpoint returned. See
docs/explanation/verification.md.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from oracle.chain.log_filter import LogFilter, validate_logs
from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.full_headers import FullHeader
from oracle.chain.verification.header_check import (
    BloomChecker,
    are_logs_complete,
    compute_header_hash,
    is_root_provably_absent,
    try_compute_receipts_root,
)
from oracle.chain.verification.header_samples import HeaderSampler
from oracle.chain.verification.receipt_fetch import (
    ProvenReceipts,
    Receipts,
    fetch_receipts,
    fetch_receipts_to_prove,
)
from oracle.chain.verification.transaction_check import try_compute_transactions_root
from oracle.chain.verification.window_check import (
    ContradictionError,
    VerifiedWindow,
    record_missing_logs,
)
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.domain.logs import Log
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# A window is read from receipts alone only if it has at least this many non-empty blocks.
MIN_NONEMPTY_BLOCKS = 80


@dataclass(frozen=True, slots=True)
class WindowVerifier:
    """Verifies answers for one filter, using the chain's proven header features."""

    log_filter: LogFilter
    calibration: Calibration
    bloom_checker: BloomChecker
    sampler: HeaderSampler
    # This is called with an endpoint that gave a wrong answer and the name of the failed check.
    report_endpoint: Callable[[Endpoint, str], None]

    def get_max_allowed_level(self, max_level: VerificationLevel) -> VerificationLevel:
        """Return the highest level, up to `max_level`, that can currently be reached."""
        if max_level >= VerificationLevel.PROVEN and self.calibration.is_proven(
            HeaderFeature.RECEIPTS
        ):
            return VerificationLevel.PROVEN
        if max_level >= VerificationLevel.BLOOMED and self.calibration.is_proven(
            HeaderFeature.BLOOM
        ):
            return VerificationLevel.BLOOMED
        return min(max_level, VerificationLevel.PINNED)

    def get_reachable_level(self, max_level: VerificationLevel) -> VerificationLevel:
        """Return the highest level, up to `max_level`, that the chain may reach.

        The chain may have a feature until samples show that it lacks the feature.
        """
        for level, feature in (
            (VerificationLevel.PROVEN, HeaderFeature.RECEIPTS),
            (VerificationLevel.BLOOMED, HeaderFeature.BLOOM),
        ):
            if max_level >= level and not self.calibration.is_unsupported(feature):
                return level
        return min(max_level, VerificationLevel.PINNED)

    def get_history_level(self, max_level: VerificationLevel) -> VerificationLevel:
        """Return the level that every block of history now reaches.

        The level is at most `max_level`. BLOOMED and higher levels require every header. A bloom
        that excludes the indexed contracts proves as much as the receipts. If the chain has no
        blooms, the receipts of every block are read.
        """
        if max_level >= VerificationLevel.BLOOMED and self.calibration.is_proven(
            HeaderFeature.BLOOM
        ):
            return VerificationLevel.BLOOMED
        can_prove_receipts = max_level >= VerificationLevel.PROVEN and self.calibration.is_proven(
            HeaderFeature.RECEIPTS
        )
        if can_prove_receipts and self.calibration.is_unsupported(HeaderFeature.BLOOM):
            has_unproven_calls = (
                self.sampler.reads_transactions
                and not self.calibration.is_proven(HeaderFeature.TRANSACTIONS)
            )
            return VerificationLevel.BLOOMED if has_unproven_calls else VerificationLevel.PROVEN
        return min(max_level, VerificationLevel.SEAMED)

    def can_read_receipts_only(
        self, endpoint: Endpoint, blocks: Sequence[FullHeader], max_level: VerificationLevel
    ) -> bool:
        """Return whether receipts alone, without a log query, can prove all logs of blocks.

        If no bloom of a non-empty block excludes the indexed contracts, the receipts of all blocks
        are read anyway. Then logs are not requested and blooms are not used. However, logs are
        still requested if there are few non-empty blocks, because this shows which endpoints are
        reliable.
        """
        features = (HeaderFeature.HEADER, HeaderFeature.RECEIPTS)
        if (
            max_level < VerificationLevel.PROVEN
            or not endpoint.limits.serves_block_receipts
            or not all(map(self.calibration.is_proven, features))
            # While samples are still needed, logs are requested in order to find blocks with logs.
            or self.calibration.needs_any_samples(self.sampler.features)
        ):
            return False
        nonempty_headers = [header for header in blocks if not header.has_no_transactions]
        return (
            len(nonempty_headers) >= max(MIN_NONEMPTY_BLOCKS, len(blocks) // 2)
            and not any(
                # Receipts cannot prove the logs of a block that an operator accepted, so they must
                # be requested.
                self.calibration.is_accepted(feature, header.block.hash)
                for feature in features
                for header in blocks
            )
            and all(map(self.bloom_checker.may_have_logs, nonempty_headers))
        )

    def find_unsupported_features(self, level: VerificationLevel) -> tuple[HeaderFeature, ...]:
        """Return the features that this level requires but the chain lacks.

        If header hashes are not valid, the roots and blooms in headers are not proven.
        """
        if level < VerificationLevel.BLOOMED:
            return ()
        needed_features = [HeaderFeature.HEADER]
        if level < VerificationLevel.PROVEN:
            needed_features.append(HeaderFeature.BLOOM)
        else:
            needed_features.append(HeaderFeature.RECEIPTS)
            needed_features += (
                [HeaderFeature.TRANSACTIONS] if self.sampler.reads_transactions else []
            )
        return tuple(
            feature for feature in needed_features if self.calibration.is_unsupported(feature)
        )

    def verify_window(self, window: VerifiedWindow) -> None:
        """Verify a window, and store in it the levels and the proven logs.

        Raises:
            ContradictionError: the endpoint contradicts a header.
            RpcError: the endpoint omitted logs that another endpoint has, or lacks data for a
                proof.
        """
        if window.max_level >= VerificationLevel.BLOOMED:
            self._check_header_hashes(window)
        if window.max_level >= VerificationLevel.PROVEN:
            self._sample_headers(window)
            self._prove_receipts(window)
        if window.max_level >= VerificationLevel.BLOOMED and self.calibration.is_proven(
            HeaderFeature.BLOOM
        ):
            self.bloom_checker.check_window(window)
        if window.returned_logs is None and len(window.proven_blocks) < len(window.headers):
            message = "some blocks have no proven receipts; expected them for every block"
            raise RpcError(window.endpoint_name, ErrorKind.INVALID, message)
        if window.calls_by_block is not None:
            self._verify_transactions(window)

    # --- headers ---

    def _check_header_hashes(self, window: VerifiedWindow) -> None:
        if not self.calibration.is_proven(HeaderFeature.HEADER):
            return
        for header in window.headers:
            computed_hash = compute_header_hash(header)
            if computed_hash != header.block.hash:
                message = "header does not hash to the block hash"
                self._raise_contradiction(
                    window, HeaderFeature.HEADER, header, message, computed_value=computed_hash
                )

    def _sample_headers(self, window: VerifiedWindow) -> None:
        """Sample the headers of blocks with matching logs, if more samples are needed."""
        if self.calibration.needs_any_samples(self.sampler.features):
            headers_with_logs = [
                header for header in window.headers if header.block.number in window.logs_by_block
            ]
            self.sampler.sample_block_headers(window.endpoint, headers_with_logs)

    # --- receipts ---

    def _check_receipts_are_available(self, window: VerifiedWindow) -> None:
        """Check that the endpoint still has receipts, even if they prove nothing.

        Raises:
            RpcError: the endpoint has pruned a block, which must not be mistaken for an empty
                block.
        """
        required_headers = [
            header for header in window.headers if header.block.number in window.required_blocks
        ][:1]
        try:
            list(fetch_receipts(window.endpoint, required_headers))
        except RpcError as error:
            if error.kind in {ErrorKind.NOT_THERE, ErrorKind.PRUNED}:
                raise

    def _prove_receipts(self, window: VerifiedWindow) -> None:
        if not self.calibration.is_proven(HeaderFeature.RECEIPTS):
            self._check_receipts_are_available(window)
            return
        for header, block_receipts in fetch_receipts_to_prove(
            window.endpoint, self._select_headers_to_prove(window), self.log_filter
        ):
            if isinstance(block_receipts, ProvenReceipts):
                self._apply_proven_receipts(window, header, block_receipts)
                continue
            computed_root = try_compute_receipts_root(block_receipts)
            if computed_root != header.receipts_root and self._mark_unsupported_if_root_absent(
                header, HeaderFeature.RECEIPTS
            ):
                return
            if computed_root != header.receipts_root:
                message = "the receipts do not match the receipts root of the header"
                self._raise_contradiction(
                    window, HeaderFeature.RECEIPTS, header, message, computed_value=computed_root
                )
                continue
            self._apply_receipts(window, header, block_receipts)

    def _select_headers_to_prove(self, window: VerifiedWindow) -> list[FullHeader]:
        """Return the headers whose receipts are needed, and mark empty blocks as proven."""
        headers_to_prove = []
        calls: Mapping[int, object] = window.calls_by_block or {}
        for header in window.headers:
            block_number = header.block.number
            has_content = block_number in window.logs_by_block or block_number in calls
            if header.has_no_transactions and not has_content:
                window.level_by_block[block_number] = VerificationLevel.PROVEN
            elif (
                has_content
                or window.returned_logs is None
                or block_number in window.required_blocks
                or self.bloom_checker.may_have_logs(header)
            ):
                headers_to_prove.append(header)
        return headers_to_prove

    def _apply_receipts(
        self, window: VerifiedWindow, header: FullHeader, block_receipts: Receipts
    ) -> None:
        """Set the logs and the success of calls from receipts that match the header."""
        block_number = header.block.number
        returned_logs = window.logs_by_block.get(block_number, [])
        calls = (window.calls_by_block or {}).get(block_number, ())
        matching_indexes = {
            tx
            for tx, receipt in enumerate(block_receipts)
            if any(map(self.log_filter.matches, receipt.logs))
        }
        _check_receipt_hashes(
            window.endpoint_name,
            header,
            block_receipts,
            matching_indexes.union(call.tx for call in calls),
        )
        if not are_logs_complete(returned_logs, block_receipts, self.log_filter):
            true_logs = extract_matching_logs(
                window.endpoint_name, header, block_receipts, self.log_filter
            )
            self._set_proven_logs(window, block_number, true_logs)
        for call in calls:
            call.succeeded = block_receipts[call.tx].succeeded
        window.blocks_with_call_outcomes.add(block_number)
        window.level_by_block[block_number] = VerificationLevel.PROVEN

    def _apply_proven_receipts(
        self, window: VerifiedWindow, header: FullHeader, proven_receipts: ProvenReceipts
    ) -> None:
        """Apply receipts that the native code has already checked against the header."""
        block_number = header.block.number
        if proven_receipts.logs or block_number in window.logs_by_block:
            self._set_proven_logs(window, block_number, proven_receipts.logs)
        for call in (window.calls_by_block or {}).get(block_number, ()):
            call.succeeded = bool(proven_receipts.statuses[call.tx])
        window.blocks_with_call_outcomes.add(block_number)
        window.level_by_block[block_number] = VerificationLevel.PROVEN

    def _set_proven_logs(self, window: VerifiedWindow, number: int, true_logs: list[Log]) -> None:
        """Set the logs of a block, and report an endpoint that returned others."""
        returned_logs = window.logs_by_block.get(number, [])
        if window.returned_logs is None:
            window.logs_by_block[number] = true_logs
        elif returned_logs != true_logs:
            record_missing_logs(
                window.endpoint_name, sum(log not in returned_logs for log in true_logs)
            )
            self.report_endpoint(window.endpoint, "logs")
            window.replace_logs(number, true_logs)

    # --- calls ---

    def _verify_transactions(self, window: VerifiedWindow) -> None:
        """Check the transactions of each block, and lower the level of unproven blocks."""
        is_provable = (
            self.calibration.is_proven(HeaderFeature.TRANSACTIONS)
            and window.max_level >= VerificationLevel.PROVEN
        )
        for header in window.headers:
            if header.has_no_transactions:
                continue
            if not is_provable or self._mark_unsupported_if_root_absent(
                header, HeaderFeature.TRANSACTIONS
            ):
                window.limit_block_level(header.block.number, VerificationLevel.BLOOMED)
            elif (
                computed_root := try_compute_transactions_root(header)
            ) != header.transactions_root:
                # Blooms do not cover calls, so every block with transactions is checked.
                message = "the transactions do not match the transactions root of the header"
                self._raise_contradiction(
                    window,
                    HeaderFeature.TRANSACTIONS,
                    header,
                    message,
                    computed_value=computed_root,
                )
                window.limit_block_level(header.block.number, VerificationLevel.BLOOMED)

    def _mark_unsupported_if_root_absent(self, header: FullHeader, feature: HeaderFeature) -> bool:
        """Mark a feature as unsupported if a header proves its absence.

        The result is whether the feature was marked.
        """
        if not is_root_provably_absent(header, feature):
            return False
        self.calibration.mark_unsupported(
            feature, f"the header of block {header.block.hash} has no root"
        )
        return True

    def _raise_contradiction(
        self,
        window: VerifiedWindow,
        feature: HeaderFeature,
        header: FullHeader,
        message: str,
        *,
        computed_value: str,
    ) -> None:
        """Raise ContradictionError unless an operator accepted the block."""
        if not self.calibration.is_accepted(feature, header.block.hash):
            raise ContradictionError(
                window.endpoint_name, feature, header, message, computed_value=computed_value
            )


def extract_matching_logs(
    endpoint: str, header: FullHeader, block_receipts: Receipts, log_filter: LogFilter
) -> list[Log]:
    """Extract the matching logs from receipts.

    The block hash of the logs is checked first.

    Raises:
        RpcError: a matching log is invalid, or of another block.
    """
    block_number = header.block.number
    responses = [
        log for receipt in block_receipts for log in receipt.logs if log_filter.matches(log)
    ]
    try:
        logs = validate_logs(responses, BlockRange(block_number, block_number), log_filter)
    except ValueError as error:
        raise RpcError(endpoint, ErrorKind.INVALID, f"receipts: {error}") from None
    for log in logs:
        if log.block_hash != header.block.hash:
            message = f"receipts of block {block_number} have another block hash than its header"
            raise RpcError(endpoint, ErrorKind.INVALID, message)
        log.time = header.block.time
    return logs


def _check_receipt_hashes(
    endpoint: str, header: FullHeader, block_receipts: Receipts, indexes: Iterable[int]
) -> None:
    """Check that receipts have the hashes of the transactions at these indexes.

    Raises:
        RpcError: a hash differs, or a receipt is missing.
    """
    try:
        tx_hashes = header.decode_tx_hashes()
    except ValueError as error:
        raise RpcError(endpoint, ErrorKind.INVALID, str(error)) from None
    for index in indexes:
        hash_pair = index < min(len(block_receipts), len(tx_hashes)) and (
            block_receipts[index].transaction_hash,
            tx_hashes[index],
        )
        if not hash_pair or hash_pair[0].lower() != hash_pair[1].lower():
            message = f"receipts and transactions of block {header.block.number} differ"
            raise RpcError(endpoint, ErrorKind.INVALID, message)
