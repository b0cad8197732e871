"""Extracts the watched calls from whole blocks, and proves that no call is missing or forged.

The transactions root commits to every transaction of a block. If the chain's roots are proven, an
endpoint that omits a transaction or changes its input is therefore detected
(docs/explanation/verification.md#l4). The sender of a call is verified by the signature of the
transaction, which needs no header. An endpoint that contradicts the signature is wrong. If all
endpoints contradict it, this is a property of the chain, as in the case of system transactions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from oracle.chain.proofs.transactions_root import SignedTransaction, compute_transactions_root
from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.full_headers import FullHeader
from oracle.chain.verification.window_check import ContradictionError
from oracle.chain.watched_calls import (
    CallCheck,
    RawTransaction,
    Selectors,
    SentTransactionResponse,
    select_watched_calls,
)
from oracle.domain.logs import Call
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.replies import get_body_decoder
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.indexer_metrics import UNPROVEN_SENDERS, VERIFY_FAILURES


def extract_watched_calls(
    endpoint: Endpoint, blocks: Sequence[FullHeader], selectors: Selectors, check_call: CallCheck
) -> dict[int, list[Call]]:
    """Return the watched calls by block, from blocks that were fetched with their transactions.

    Raises:
        RpcError: transactions are missing or of another block, or `check_call` fails.
    """
    if not selectors:
        return {}
    calls_by_block = {}
    for header in blocks:
        try:
            transactions = get_body_decoder(list[SentTransactionResponse]).decode(
                header.response.transactions
            )
        except msgspec.DecodeError as error:
            message = f"transactions of block {header.block.number}: {error}"
            raise RpcError(endpoint.name, ErrorKind.INVALID, message) from None
        calls = select_watched_calls(endpoint.name, header.block, transactions, selectors)
        if calls:
            calls_by_block[header.block.number] = calls
            raw_transactions = get_body_decoder(list[msgspec.Raw]).decode(
                header.response.transactions
            )
            for call in calls:
                check_call(
                    call, get_body_decoder(RawTransaction).decode(raw_transactions[call.tx])
                )
    return calls_by_block


def try_compute_transactions_root(header: FullHeader) -> str:
    """Return the root of the block's transactions, whose hashes must match their fields.

    If the transactions cannot be encoded, or a hash does not match, the result is not a root.
    """
    try:
        transactions = get_body_decoder(list[SignedTransaction]).decode(
            header.response.transactions
        )
        are_hashes_valid = all(
            transaction.hash.lower() == transaction.compute_hash() for transaction in transactions
        )
        return compute_transactions_root(transactions) if are_hashes_valid else "misnamed"
    except (msgspec.DecodeError, ValueError):
        return "unwritable"


def has_valid_transactions_root(header: FullHeader) -> bool:
    """Return whether the block's transactions match the root of its header."""
    return try_compute_transactions_root(header) == header.transactions_root


class ForgeryError(ContradictionError):
    """A call's sender, or another field of it, differs from the signed transaction."""

    def __init__(self, endpoint: str, call: Call, message: str) -> None:
        full_message = f"block {call.block}: call {call.tx_hash}: {message}"
        RpcError.__init__(self, endpoint, ErrorKind.INVALID, full_message)
        self.number, self.feature = call.block, HeaderFeature.SENDER
        self.block_hash = call.block_hash
        self.computed_value = f"{call.tx_hash} {call.sender} {message}"
        VERIFY_FAILURES.labels(self.feature, endpoint).inc()


@dataclass(slots=True)
class SenderChecker:
    """Checks the senders of one window's calls, all from one endpoint.

    `unproven_blocks` have calls whose sender is not proven by a signature.
    """

    endpoint: str
    calibration: Calibration
    unproven_blocks: set[int] = field(default_factory=set)

    def check_sender(self, call: Call, raw_transaction: RawTransaction) -> None:
        """Compare a call with the signed transaction that the endpoint returned.

        Raises:
            ForgeryError: the transaction was signed by another account, or has other fields.
        """
        # The import takes 0.1 s and is needed only for calls.
        from oracle.chain.proofs.transaction_sender import recover_signer  # noqa: PLC0415

        try:
            signer_address = recover_signer(msgspec.convert(raw_transaction, SignedTransaction))
        except msgspec.ValidationError:
            # The transaction has an unsupported type, such as a type of this chain only.
            signer_address = None
        except ValueError as error:
            self._raise_or_record_contradiction(call, str(error))
            return
        if signer_address is None:
            self._record_unproven_sender(call)
        elif signer_address != call.sender:
            message = f"signed by {signer_address}, but the reported sender is {call.sender}"
            self._raise_or_record_contradiction(call, message)
        else:
            self.calibration.record_sample(call.tx_hash, {HeaderFeature.SENDER: True})

    def _raise_or_record_contradiction(self, call: Call, message: str) -> None:
        if self.calibration.is_accepted(HeaderFeature.SENDER, call.block_hash):
            self._record_unproven_sender(call)
            return
        if self.calibration.is_proven(HeaderFeature.SENDER) or self.calibration.needs_samples(
            HeaderFeature.SENDER
        ):
            raise ForgeryError(self.endpoint, call, message)
        self._record_unproven_sender(call)

    def _record_unproven_sender(self, call: Call) -> None:
        UNPROVEN_SENDERS.labels(self.endpoint).inc()
        self.unproven_blocks.add(call.block)
