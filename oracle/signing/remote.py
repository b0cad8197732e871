"""Signer for a key behind JSON-RPC (Web3Signer, Clef, a KMS proxy), with verified responses.

Each call sends one request, without retries or redirects, with limits on time and size
(`rpc.transport`). No field of the response is trusted (tests/faults/sending/cases.toml#f70).
"""

import itertools
import json
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from typing_extensions import override

from oracle.domain.ids import Address
from oracle.errors import InputError, TransientError
from oracle.rpc.replies import matches_request_id
from oracle.rpc.rpc_errors import RpcError
from oracle.rpc.transport import BoundedHttp, HttpAccess
from oracle.signing.key_locations import RemoteKey
from oracle.signing.keystore import read_secret_file
from oracle.signing.signature_checks import verify_signed_transaction, verify_statement_signature
from oracle.signing.signer import (
    SignedBytes,
    SignerRefusedError,
    TransactionRequest,
    WrongSignatureError,
)
from oracle.signing.typed_data import Domain, SignableStatement, build_typed_data
from oracle.telemetry.metrics import RPC_CALLS, RPC_ERRORS, RPC_SECONDS
from oracle.telemetry.safe_text import redact_secrets, register_secret

# Maximum size of a response, which is far more than the hex of a signed transaction.
_MAX_RESPONSE_BYTES = 1 << 20
# Maximum length of a signer's error message. Longer messages are truncated.
_MAX_ERROR_LENGTH = 200


class RemoteSigner:
    """Client of a remote signer for one account; `repr` shows only the address and host."""

    __slots__ = ("_address", "_http", "_location", "_name", "_request_ids")

    def __init__(self, location: RemoteKey) -> None:
        """Read the credentials from their files without sending a request.

        Raises:
            InputError: a certificate or token file is missing or readable by others.
        """
        self._address = Address(location.address.lower())
        self._location = location
        self._name = urlsplit(location.url).hostname or "the remote signer"
        self._http = BoundedHttp(
            location.url,
            name=self._name,
            max_bytes=_MAX_RESPONSE_BYTES,
            access=_build_http_access(location),
            watches_certificate=True,
        )
        self._request_ids = itertools.count(1)

    @override
    def __repr__(self) -> str:
        return f"RemoteSigner({self.address} at {self._name})"

    @property
    def address(self) -> Address:
        return self._address

    def sign_statement(self, statement: SignableStatement, domain: Domain) -> bytes:
        """Request a signature of a report or an answer, sent as EIP-712 data.

        See `Signer`.
        """
        typed_data_json = json.dumps(build_typed_data(statement, domain))
        signature_hex = self._call_rpc(
            self._location.typed_data_method, [self.address, typed_data_json]
        )
        signature = _decode_hex_result(signature_hex, self._name)
        if signature[-1:] in {b"\x00", b"\x01"}:
            # Some signers return the parity (0 or 1) instead of v (27 or 28).
            signature = signature[:-1] + bytes([signature[-1] + 27])
        return verify_statement_signature(
            signature, statement.compute_digest(domain), self.address
        )

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        """Request a signature of a type 2 transaction. See `Signer`."""
        result = self._call_rpc(
            "eth_signTransaction", [build_sign_transaction_params(transaction, self.address)]
        )
        # Geth and Clef wrap the raw transaction in an object.
        raw_transaction = result.get("raw") if isinstance(result, dict) else result
        return verify_signed_transaction(
            _decode_hex_result(raw_transaction, self._name), transaction, self.address
        )

    def _call_rpc(self, method: str, parameters: list[object]) -> object:
        RPC_CALLS.labels(method).inc()
        request_id = next(self._request_ids)
        request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": parameters}
        try:
            with RPC_SECONDS.labels(method).time():
                response_document = json.loads(self._post_request(request))
        except (RpcError, ValueError, RecursionError) as error:
            RPC_ERRORS.labels(method).inc()
            raise TransientError(
                f"the signer at {self._name} did not answer {method} "
                f"({_describe_error_without_url(error)}); the same request is sent again"
            ) from None
        return _extract_result(
            response_document, request_id, f"the signer at {self._name}", method
        )

    def _post_request(self, request: Mapping[str, object]) -> bytes:
        """Send a request, and return the response body.

        Raises:
            RpcError: the signer did not respond in time.
            ValueError: the HTTP status is not 200, or the body exceeds the size limit.
        """
        timeout_seconds = self._location.timeout_seconds
        # The total timeout protects against a server that sends its response byte by byte.
        response = self._http.post(json.dumps(request).encode(), timeout_seconds, timeout_seconds)
        if response.status != HTTPStatus.OK:
            # A redirect is rejected, too, so that no other host sees the request.
            raise _InvalidHttpResponseError(f"HTTP {response.status}")
        if response.is_truncated:
            raise _InvalidHttpResponseError(f"response larger than {_MAX_RESPONSE_BYTES} bytes")
        return response.body


class _InvalidHttpResponseError(ValueError):
    """The HTTP response is unusable; the message contains no URL."""


def build_sign_transaction_params(
    transaction: TransactionRequest, sender: Address
) -> dict[str, object]:
    """Build the parameter of `eth_signTransaction` with every signed field."""
    params: dict[str, object] = {
        "from": sender,
        "type": "0x2",
        "chainId": hex(transaction.chain_id),
        "nonce": hex(transaction.nonce),
        "value": "0x0",
        "data": transaction.calldata,
        "gas": hex(transaction.gas_limit),
        "maxFeePerGas": hex(transaction.fees.max_fee),
        "maxPriorityFeePerGas": hex(transaction.fees.tip),
        "accessList": [],
    }
    return params if transaction.to is None else {**params, "to": transaction.to}


def _build_http_access(location: RemoteKey) -> HttpAccess:
    certificate_and_key = None
    ca_file = None
    headers = dict[str, str]()
    if location.certificate is not None and location.certificate_key is not None:
        # Read the file only to check its mode, because requests itself opens the files by path.
        read_secret_file(location.certificate_key)
        certificate_and_key = (
            str(_require_file(location.certificate)),
            str(location.certificate_key),
        )
    if location.ca_file is not None:
        ca_file = str(_require_file(location.ca_file))
    if location.token_file is not None:
        token = read_secret_file(location.token_file).strip()
        if not token.isascii() or not token.isprintable() or not token:
            raise InputError(
                f"{location.token_file}: the file does not contain a token of printable ASCII "
                "characters"
            )
        register_secret(token)
        headers["Authorization"] = f"Bearer {token}"
    return HttpAccess(headers, certificate_and_key, ca_file)


def _describe_error_without_url(error: Exception) -> str:
    """Describe an error as text that contains no URL."""
    if isinstance(error, RpcError):
        return error.detail
    return str(error) if isinstance(error, _InvalidHttpResponseError) else type(error).__name__


def _require_file(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path}: file not found")
    return path


def _extract_result(response: object, request_id: int, signer_name: str, method: str) -> object:
    if not isinstance(response, dict):
        raise TransientError(f"{signer_name} returned no JSON-RPC response to {method}")
    error = response.get("error")
    if not matches_request_id(response.get("id"), request_id, is_error=error is not None):
        raise TransientError(
            f"{signer_name} returned a response to {method} whose id does not match the request"
        )
    if error is not None:
        message = error.get("message", "") if isinstance(error, dict) else error
        error_message = redact_secrets(str(message))[:_MAX_ERROR_LENGTH]
        raise SignerRefusedError(f"{signer_name} refused {method}: {error_message}")
    if "result" not in response:
        raise TransientError(f"{signer_name} returned no result for {method}")
    return response["result"]


def _decode_hex_result(value: object, host: str) -> bytes:
    try:
        if isinstance(value, str) and value.startswith("0x"):
            return bytes.fromhex(value[2:])
    except ValueError:
        # Invalid hex is reported below, like a value that is not a string.
        value = None
    raise WrongSignatureError(f"the signer at {host} returned a result that is not hex")
