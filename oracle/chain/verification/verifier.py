"""Proves a window, step by step: headers, receipts (L4), blooms (L3).

What the receipts prove is taken in place of what the endpoint gave.
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

# Blocks with transactions in a window that is read by its receipts alone.
LEAST_FULL_BLOCKS = 80


@dataclass(frozen=True, slots=True)
class WindowVerifier:
    """Judges the answers for one filter by what a chain's headers are worth."""

    wanted: Filter
    calibration: Calibration
    blooms: Blooms
    sampler: Sampler
    # Called with an endpoint and what it was found out by.
    accuse: Callable[[Endpoint, str], None]

    def allowed(self, top: Level) -> Level:
        """Return the highest level that can be reached now, of those up to `top`."""
        if top >= Level.PROVEN and self.calibration.has(HeaderFeature.RECEIPTS):
            return Level.PROVEN
        if top >= Level.BLOOMED and self.calibration.has(HeaderFeature.BLOOM):
            return Level.BLOOMED
        return min(top, Level.PINNED)

    def of_history(self, top: Level) -> Level:
        """Return the level that every block of history reaches now, of those up to `top`.

        BLOOMED or more asks for every header: a bloom that excludes our contracts is as good as
        the receipts, and where the chain has none, every block's receipts are read.
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
        """Tell whether receipts prove all logs of these blocks, whoever is asked for logs besides.

        Where no bloom excludes us from any block with transactions, the receipts of all are read
        to prove what was given; then nothing has to be given. Nothing rests on a bloom here. Of
        few such blocks logs are asked for all the same: whom to ask is learned by it.
        """
        features = (HeaderFeature.HEADER, HeaderFeature.RECEIPTS)
        if (
            top < Level.PROVEN
            or not endpoint.limits.gives_receipts
            or not all(map(self.calibration.has, features))
            # Samples are taken of blocks that are known to have logs.
            or self.calibration.is_any_open(self.sampler.features)
        ):
            return False
        full = [one for one in blocks if not one.is_without_transactions]
        return (
            len(full) >= max(LEAST_FULL_BLOCKS, len(blocks) // 2)
            and not any(
                # Of a block that an operator takes as it is given, the logs must be given.
                self.calibration.is_accepted(feature, one.block.hash)
                for feature in features
                for one in blocks
            )
            and all(map(self.blooms.may_hide, full))
        )

    def refuted(self, top: Level) -> tuple[HeaderFeature, ...]:
        """Return what the chain was found not to have of all that blocks at `top` rest on.

        Without the header's hash, roots and blooms are no more than words of who gives them.
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
        """Prove what can be proven, and write into the window what was.

        Raises:
            ContradictionError: the endpoint contradicts a header.
            RpcError: it left logs out that another one has, or does not give what is needed.
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
        """Take samples where they are wanted; blocks with our logs are good ones."""
        if self.calibration.is_any_open(self.sampler.features):
            chosen = [one for one in window.blocks if one.block.number in window.logs]
            self.sampler.learn(window.endpoint, chosen)

    # --- receipts ---

    def _see_held(self, window: VerifiedWindow) -> None:
        """Where receipts prove nothing, see at least that the endpoint still has them.

        Raises:
            RpcError: it has forgotten what is in a block, which is not to be taken for empty.
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
        """Take logs, and whether calls succeeded, from receipts that are the block's own."""
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
        """Take the logs from the receipts; that they name their block too is not proven by it."""
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
        """Let no block count as proven whose transactions were not; see `callers`."""
        is_provable = (
            self.calibration.has(HeaderFeature.TRANSACTIONS) and window.top >= Level.PROVEN
        )
        for one in window.blocks:
            if one.is_without_transactions:
                continue
            if not is_provable or self._is_refuted_by(one, HeaderFeature.TRANSACTIONS):
                window.lower(one.block.number, Level.BLOOMED)
            elif (made := root_of_sent(one)) != one.transactions_root:
                # No bloom knows of calls: a block without any is as suspicious as one with some.
                words = "its transactions do not make the root of its header"
                self._contradict(window, HeaderFeature.TRANSACTIONS, one, words, said=made)
                window.lower(one.block.number, Level.BLOOMED)

    def _is_refuted_by(self, one: FullHeader, feature: HeaderFeature) -> bool:
        """Refute a root where the block's own header proves that there is none."""
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
        """Refuse the window, unless an operator takes the block as it is given."""
        if not self.calibration.is_accepted(feature, header.block.hash):
            raise ContradictionError(window.name, feature, header, words, said=said)


def _see_names(endpoint: str, one: FullHeader, given: Receipts, places: Iterable[int]) -> None:
    """See that receipts at these places are named as the block's transactions are.

    Raises:
        RpcError: they are not, or there are none.
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
