"""Extracts watched calls from whole blocks, and proves that none is missing or forged.

The transactions root commits to every transaction of a block. If the chain's roots are proven, an
endpoint that omits a transaction or changes its input is therefore detected
(docs/explanation/verification.md#l4). The sender of a call is verified by the signature of the
transaction, which needs no header. An endpoint that contradicts the signature is wrong. If all
endpoints contradict it, this is a property of the chain, as in the case of system transactions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.rlp import EMPTY_STRING, encode_int, encode_rlp_list
from oracle.chain.proofs.transactions_root import (
    KNOWN_TYPES,
    SignedTransaction,
    compute_transactions_root,
    encode_transaction_fields,
)
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

# The lowest `v` of a legacy transaction without and with a chain id (EIP-155).
_MIN_V_UNPROTECTED, _MIN_V_PROTECTED = 27, 35


def extract_watched_calls(
    endpoint: Endpoint, blocks: Sequence[FullHeader], selectors: Selectors, check_call: CallCheck
) -> dict[int, list[Call]]:
    """Extract the watched calls of each block.

    The blocks were fetched with their transactions.

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
    """Compute the root of a block's transactions.

    The hashes of the transactions must match their fields. If the transactions cannot be encoded,
    or a hash does not match, the result is not a root.
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
    """Return whether a block's transactions match the root in its header."""
    return try_compute_transactions_root(header) == header.transactions_root


class ForgeryError(ContradictionError):
    """A call's sender or another field differs from the signed transaction."""

    def __init__(self, endpoint: str, call: Call, message: str) -> None:
        full_message = f"block {call.block}: call {call.tx_hash}: {message}"
        RpcError.__init__(self, endpoint, ErrorKind.INVALID, full_message)
        self.number, self.feature = call.block, HeaderFeature.SENDER
        self.block_hash = call.block_hash
        self.computed_value = f"{call.tx_hash} {call.sender} {message}"
        VERIFY_FAILURES.labels(self.feature, endpoint).inc()


@dataclass(slots=True)
class SenderChecker:
    """Checks the senders of calls that one endpoint returned for a window.

    `unproven_blocks` have calls whose sender is not proven by a signature.
    """

    endpoint: str
    calibration: Calibration
    unproven_blocks: set[int] = field(default_factory=set)

    def check_sender(self, call: Call, raw_transaction: RawTransaction) -> None:
        """Check a call against the signed transaction that the endpoint returned.

        Raises:
            ForgeryError: the transaction was signed by another account, or has other fields.
        """
        # Importing this takes 0.1 s, and only calls need it.
        from oracle.chain.verification.transaction_check import recover_signer  # noqa: PLC0415

        try:
            signer_address = recover_signer(msgspec.convert(raw_transaction, SignedTransaction))
        except msgspec.ValidationError:
            # The transaction's type is unsupported, for example one that only this chain has.
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


def recover_signer(transaction: SignedTransaction) -> str | None:
    """Recover the signer's address in lower case, or return None if this is impossible.

    The signer cannot be recovered if the type is unknown, such as the type of a chain's system
    transactions, or if the signature is missing or consists of zeros.

    Raises:
        ValueError: the fields do not match the hash, or the signature is invalid.
    """
    if int(transaction.type, 16) not in KNOWN_TYPES or not _is_signed(transaction):
        return None
    if transaction.compute_hash() != transaction.hash.lower():
        raise ValueError("the fields of the transaction do not match its hash")
    # These libraries import slowly and are needed only for verification.
    from eth_keys.datatypes import Signature  # noqa: PLC0415
    from eth_keys.exceptions import BadSignature  # noqa: PLC0415
    from eth_utils.exceptions import ValidationError  # noqa: PLC0415

    signed_payload, parity = _build_signed_payload(transaction)
    try:
        signature = Signature(
            vrs=(parity, _parse_quantity(transaction.r), _parse_quantity(transaction.s))
        )
        public_key = signature.recover_public_key_from_msg_hash(keccak(signed_payload))
    except (BadSignature, ValidationError) as error:
        raise ValueError("the signature of the transaction is invalid") from error
    return str(public_key.to_address())


def _is_signed(transaction: SignedTransaction) -> bool:
    has_parity = transaction.v is not None or transaction.y_parity is not None
    return has_parity and _parse_quantity(transaction.r) > 0 and _parse_quantity(transaction.s) > 0


def _parse_quantity(quantity: str | None) -> int:
    return 0 if quantity is None else int(quantity, 16)


def _build_signed_payload(transaction: SignedTransaction) -> tuple[bytes, int]:
    """Return the payload that was signed, and the parity (0 or 1) of its signature."""
    transaction_type = int(transaction.type, 16)
    fields = encode_transaction_fields(transaction)[:-3]
    if transaction_type:
        return bytes([transaction_type]) + encode_rlp_list(fields), _parse_quantity(
            transaction.y_parity or transaction.v
        )
    v = _parse_quantity(transaction.v)
    if v < _MIN_V_PROTECTED:
        return encode_rlp_list(fields), v - _MIN_V_UNPROTECTED
    chain_id, parity = divmod(v - _MIN_V_PROTECTED, 2)
    return encode_rlp_list([*fields, encode_int(chain_id), EMPTY_STRING, EMPTY_STRING]), parity
