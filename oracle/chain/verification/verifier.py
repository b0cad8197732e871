"""Verifies a window, step by step: headers, receipts (L4), blooms (L3).

Logs that the receipts prove replace those that the endpoint gave.
See docs/explanation/verification.md.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from oracle.chain.log_filter import Filter, checked
from oracle.chain.verification.bloom_check import Blooms
from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.full_headers import FullHeader
from oracle.chain.verification.header_check import are_all, hash_of, lacks_root, root_of
from oracle.chain.verification.header_samples import Sampler
from oracle.chain.verification.receipt_fetch import Receipts, receipts
from oracle.chain.verification.transaction_check import root_of_sent
from oracle.chain.verification.window_check import (
    ContradictionError,
    VerifiedWindow,
    note_missing,
)
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Level
from oracle.domain.logs import Log
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# Minimum of non-empty blocks in a window that is read by receipts alone.
LEAST_FULL_BLOCKS = 80


@dataclass(frozen=True, slots=True)
class WindowVerifier:
    """Verifies the answers for one filter, using the proven features of the chain's headers."""

    wanted: Filter
    calibration: Calibration
    blooms: Blooms
    sampler: Sampler
    # Called with an endpoint that gave a wrong answer, and the check that found it.
    accuse: Callable[[Endpoint, str], None]

    def allowed(self, top: Level) -> Level:
        """Return the highest level up to `max_level` that can be reached now."""
        if top >= Level.PROVEN and self.calibration.has(HeaderFeature.RECEIPTS):
            return Level.PROVEN
        if top >= Level.BLOOMED and self.calibration.has(HeaderFeature.BLOOM):
            return Level.BLOOMED
        return min(top, Level.PINNED)

    def of_history(self, top: Level) -> Level:
        """Return the level up to `max_level` that every historical block reaches now.

        BLOOMED and above need every header: a bloom that excludes our contracts proves as much as
        the receipts, and if the chain has no blooms, every block's receipts are read.
        """
        if top >= Level.BLOOMED and self.calibration.has(HeaderFeature.BLOOM):
            return Level.BLOOMED
        has_roots = top >= Level.PROVEN and self.calibration.has(HeaderFeature.RECEIPTS)
        if has_roots and self.calibration.is_refuted(HeaderFeature.BLOOM):
            has_calls = self.sampler.reads_whole and not self.calibration.has(
                HeaderFeature.TRANSACTIONS
            )
            return Level.BLOOMED if has_calls else Level.PROVEN
        return min(top, Level.SEAMED)

    def reads_every_receipt(
        self, endpoint: Endpoint, blocks: Sequence[FullHeader], top: Level
    ) -> bool:
        """Return whether receipts alone can prove all logs of these blocks, without a log query.

        If no bloom excludes our contracts from any non-empty block, the receipts of all blocks are
        read anyway, and no logs have to be requested; no bloom is relied on. With few such blocks,
        logs are requested all the same, because that shows which endpoints are reliable.
        """
        features = (HeaderFeature.HEADER, HeaderFeature.RECEIPTS)
        if (
            top < Level.PROVEN
            or not endpoint.limits.gives_receipts
            or not all(map(self.calibration.has, features))
            # Samples need blocks that are known to have logs.
            or self.calibration.is_any_open(self.sampler.features)
        ):
            return False
        full = [one for one in blocks if not one.is_without_transactions]
        return (
            len(full) >= max(LEAST_FULL_BLOCKS, len(blocks) // 2)
            and not any(
                # The logs of a block that an operator accepted must be requested.
                self.calibration.is_accepted(feature, one.block.hash)
                for feature in features
                for one in blocks
            )
            and all(map(self.blooms.may_hide, full))
        )

    def refuted(self, top: Level) -> tuple[HeaderFeature, ...]:
        """Return the refuted features among those that blocks at this level rely on.

        Without a valid header hash, roots and blooms are unproven claims of the endpoint.
        """
        if top < Level.BLOOMED:
            return ()
        needed = [HeaderFeature.HEADER]
        if top < Level.PROVEN:
            needed.append(HeaderFeature.BLOOM)
        else:
            needed.append(HeaderFeature.RECEIPTS)
            needed += [HeaderFeature.TRANSACTIONS] if self.sampler.reads_whole else []
        return tuple(feature for feature in needed if self.calibration.is_refuted(feature))

    def verify(self, window: VerifiedWindow) -> None:
        """Verify a window, and store the levels and proven logs in it.

        Raises:
            ContradictionError: the endpoint contradicts a header.
            RpcError: the endpoint omitted logs that another one has, or lacks data for the proof.
        """
        if window.top >= Level.BLOOMED:
            self._check_headers(window)
        if window.top >= Level.PROVEN:
            self._learn(window)
            self._prove(window)
        if window.top >= Level.BLOOMED and self.calibration.has(HeaderFeature.BLOOM):
            self.blooms.sift(window)
        if window.given is None and len(window.proven) < len(window.blocks):
            words = "its receipts were to tell all logs, and do not"
            raise RpcError(window.name, ErrorKind.INVALID, words)
        if window.calls is not None:
            self._count_calls(window)

    # --- headers ---

    def _check_headers(self, window: VerifiedWindow) -> None:
        if not self.calibration.has(HeaderFeature.HEADER):
            return
        for one in window.blocks:
            made = hash_of(one)
            if made != one.block.hash:
                words = "its header has another hash"
                self._contradict(window, HeaderFeature.HEADER, one, words, said=made)

    def _learn(self, window: VerifiedWindow) -> None:
        """Take samples if they are needed; blocks with matching logs are good samples."""
        if self.calibration.is_any_open(self.sampler.features):
            chosen = [one for one in window.blocks if one.block.number in window.logs]
            self.sampler.learn(window.endpoint, chosen)

    # --- receipts ---

    def _see_held(self, window: VerifiedWindow) -> None:
        """Check that the endpoint still has receipts, even if they cannot prove anything.

        Raises:
            RpcError: the endpoint has pruned a block, which must not be taken for an empty block.
        """
        held = [one for one in window.blocks if one.block.number in window.must][:1]
        try:
            list(receipts(window.endpoint, held))
        except RpcError as error:
            if error.kind in {ErrorKind.NOT_THERE, ErrorKind.PRUNED}:
                raise

    def _prove(self, window: VerifiedWindow) -> None:
        if not self.calibration.has(HeaderFeature.RECEIPTS):
            self._see_held(window)
            return
        chosen = []
        calls: Mapping[int, object] = window.calls or {}
        for one in window.blocks:
            number = one.block.number
            has_some = number in window.logs or number in calls
            if one.is_without_transactions and not has_some:
                window.levels[number] = Level.PROVEN
            elif (
                has_some
                or window.given is None
                or number in window.must
                or self.blooms.may_hide(one)
            ):
                chosen.append(one)
        for one, given in receipts(window.endpoint, chosen):
            made = root_of(given)
            if made != one.receipts_root and self._is_refuted_by(one, HeaderFeature.RECEIPTS):
                return
            if made != one.receipts_root:
                words = "its receipts do not make the root of its header"
                self._contradict(window, HeaderFeature.RECEIPTS, one, words, said=made)
                continue
            self._take(window, one, given)

    def _take(self, window: VerifiedWindow, one: FullHeader, given: Receipts) -> None:
        """Apply proven receipts: set the logs, and whether calls succeeded."""
        number = one.block.number
        said = window.logs.get(number, [])
        calls = (window.calls or {}).get(number, ())
        ours = {
            tx for tx, receipt in enumerate(given) if any(map(self.wanted.matches, receipt.logs))
        }
        _see_names(window.name, one, given, ours.union(call.tx for call in calls))
        if not are_all(said, given, self.wanted):
            true = self._logs_in(window.name, one, given)
            if window.given is None:
                window.logs[number] = true
            elif said != true:
                note_missing(window.name, sum(log not in said for log in true))
                self.accuse(window.endpoint, "logs")
                window.repair(number, true)
        for call in calls:
            call.succeeded = given[call.tx].succeeded
        window.settled.add(number)
        window.levels[number] = Level.PROVEN

    def _logs_in(self, endpoint: str, one: FullHeader, given: Receipts) -> list[Log]:
        """Extract the matching logs of receipts; their block hash is checked, not proven."""
        number = one.block.number
        answers = [log for receipt in given for log in receipt.logs if self.wanted.matches(log)]
        try:
            logs = checked(answers, BlockRange(number, number), self.wanted)
        except ValueError as error:
            raise RpcError(endpoint, ErrorKind.INVALID, f"receipts: {error}") from None
        for log in logs:
            if log.block_hash != one.block.hash:
                raise RpcError(endpoint, ErrorKind.INVALID, f"receipts of another block {number}")
            log.time = one.block.time
        return logs

    # --- calls ---

    def _count_calls(self, window: VerifiedWindow) -> None:
        """Lower the level of blocks whose transactions could not be proven."""
        is_provable = (
            self.calibration.has(HeaderFeature.TRANSACTIONS) and window.top >= Level.PROVEN
        )
        for one in window.blocks:
            if one.is_without_transactions:
                continue
            if not is_provable or self._is_refuted_by(one, HeaderFeature.TRANSACTIONS):
                window.lower(one.block.number, Level.BLOOMED)
            elif (made := root_of_sent(one)) != one.transactions_root:
                # Blooms do not cover calls: a block without calls needs the same check.
                words = "its transactions do not make the root of its header"
                self._contradict(window, HeaderFeature.TRANSACTIONS, one, words, said=made)
                window.lower(one.block.number, Level.BLOOMED)

    def _is_refuted_by(self, one: FullHeader, feature: HeaderFeature) -> bool:
        """Refute a feature if the block's own valid header proves that it has no such root."""
        if not lacks_root(one, feature):
            return False
        self.calibration.demote(feature, f"the header of block {one.block.hash} has no root")
        return True

    def _contradict(
        self,
        window: VerifiedWindow,
        feature: HeaderFeature,
        header: FullHeader,
        words: str,
        *,
        said: str,
    ) -> None:
        """Raise ContradictionError, unless an operator accepted the block."""
        if not self.calibration.is_accepted(feature, header.block.hash):
            raise ContradictionError(window.name, feature, header, words, said=said)


def _see_names(endpoint: str, one: FullHeader, given: Receipts, places: Iterable[int]) -> None:
    """Check that receipts at these indexes have the hashes of the block's transactions.

    Raises:
        RpcError: a hash differs, or a receipt is missing.
    """
    try:
        names = one.tx_hashes()
    except ValueError as error:
        raise RpcError(endpoint, ErrorKind.INVALID, str(error)) from None
    for tx in places:
        told = tx < min(len(given), len(names)) and (given[tx].transaction_hash, names[tx])
        if not told or told[0].lower() != told[1].lower():
            words = f"receipts and transactions of block {one.block.number} differ"
            raise RpcError(endpoint, ErrorKind.INVALID, words)
