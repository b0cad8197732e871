"""Signer for a key behind JSON-RPC (Web3Signer, Clef, a KMS proxy); responses are verified.

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
from oracle.rpc.replies import is_of
from oracle.rpc.rpc_errors import RpcError
from oracle.rpc.transport import BoundedHttp, HttpAccess
from oracle.signing.key_locations import RemoteKey
from oracle.signing.keystore import read_secret
from oracle.signing.signature_checks import checked_statement, compared
from oracle.signing.signer import (
    SignedBytes,
    SignerRefusedError,
    Statement,
    TransactionRequest,
    WrongSignatureError,
)
from oracle.signing.typed_data import Domain, typed
from oracle.telemetry.metrics import RPC_CALLS, RPC_ERRORS, RPC_SECONDS
from oracle.telemetry.safe_text import hide, without_secrets

# A batch of task starts is far smaller; a report of 1,024 words is 80 KiB in hex.
_MOST_BYTES = 1 << 20
# Error messages of a signer are shown up to this many characters.
_SHOWN = 200


class RemoteSigner:
    """Signer of one account on another host. `repr` shows only its address and host."""

    __slots__ = ("_address", "_http", "_name", "_numbers", "_place")

    def __init__(self, place: RemoteKey) -> None:
        """Read the credentials; no request is sent yet.

        Raises:
            InputError: a certificate or token file is missing or readable by others.
        """
        self._address = Address(place.address.lower())
        self._place = place
        self._name = urlsplit(place.url).hostname or "the remote signer"
        self._http = BoundedHttp(
            place.url, name=self._name, max_bytes=_MOST_BYTES, access=_access(place)
        )
        self._numbers = itertools.count(1)

    @override
    def __repr__(self) -> str:
        return f"RemoteSigner({self.address} at {self._name})"

    @property
    def address(self) -> Address:
        return self._address

    def sign_statement(self, statement: Statement, domain: Domain) -> bytes:
        """Request a signature of a report or a kickout as full EIP-712 data. See `Signer`."""
        written = json.dumps(typed(statement, domain))
        told = self._ask(self._place.typed_data_method, [self.address, written])
        raw = _bytes(told, self._name)
        if raw[-1:] in {b"\x00", b"\x01"}:
            # Some signers return the parity instead of v.
            raw = raw[:-1] + bytes([raw[-1] + 27])
        return checked_statement(raw, statement.digest(domain), self.address)

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        """Request a signature of a type 2 transaction. See `Signer`."""
        told = self._ask("eth_signTransaction", [asked_for(transaction, self.address)])
        # Geth and Clef wrap the transaction in an object.
        raw = told.get("raw") if isinstance(told, dict) else told
        return compared(_bytes(raw, self._name), transaction, self.address)

    def _ask(self, method: str, parameters: list[object]) -> object:
        RPC_CALLS.labels(method).inc()
        number = next(self._numbers)
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
        try:
            with RPC_SECONDS.labels(method).time():
                answer = json.loads(self._post(body))
        except (RpcError, ValueError, RecursionError) as error:
            RPC_ERRORS.labels(method).inc()
            raise TransientError(
                f"the signer at {self._name} did not answer {method} ({_shortly(error)}): "
                "it is asked again for the same"
            ) from None
        return _result(answer, number, f"the signer at {self._name}", method)

    def _post(self, asked: Mapping[str, object]) -> bytes:
        """Send one request and return the response body.

        Raises:
            RpcError: no response in time.
            ValueError: an HTTP status other than 200, or a body over the size limit.
        """
        seconds = self._place.timeout_seconds
        # The total timeout stops a server that sends its response byte by byte.
        answer = self._http.post(json.dumps(asked).encode(), seconds, seconds)
        if answer.status != HTTPStatus.OK:
            # Redirects are rejected too, so that no other host sees the request.
            raise _NotSignedError(f"HTTP {answer.status}")
        if answer.is_cut:
            raise _NotSignedError(f"more than {_MOST_BYTES} bytes")
        return answer.body


class _NotSignedError(ValueError):
    """The HTTP response is unusable; the message holds no URL."""


def asked_for(transaction: TransactionRequest, sender: Address) -> dict[str, object]:
    """Return the parameter of `eth_signTransaction` with every field that is signed."""
    asked: dict[str, object] = {
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
    return asked if transaction.to is None else {**asked, "to": transaction.to}


def _access(place: RemoteKey) -> HttpAccess:
    certificate, ca_file, headers = None, None, dict[str, str]()
    if place.certificate is not None and place.certificate_key is not None:
        # Read only to check the file mode: requests takes the paths.
        read_secret(place.certificate_key)
        certificate = (str(_there(place.certificate)), str(place.certificate_key))
    if place.ca_file is not None:
        ca_file = str(_there(place.ca_file))
    if place.token_file is not None:
        token = read_secret(place.token_file).strip()
        if not token.isascii() or not token.isprintable() or not token:
            raise InputError(f"{place.token_file}: holds no token")
        hide(token)
        headers["Authorization"] = f"Bearer {token}"
    return HttpAccess(headers, certificate, ca_file)


def _shortly(error: Exception) -> str:
    """Describe an error in a text that holds no URL."""
    if isinstance(error, RpcError):
        return error.words
    return str(error) if isinstance(error, _NotSignedError) else type(error).__name__


def _there(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    return path


def _result(answer: object, number: int, who: str, method: str) -> object:
    if not isinstance(answer, dict):
        raise TransientError(f"{who} answered {method} with no JSON-RPC")
    error = answer.get("error")
    if not is_of(answer.get("id"), number, is_error=error is not None):
        raise TransientError(f"{who} answered another question than {method}")
    if error is not None:
        said = error.get("message", "") if isinstance(error, dict) else error
        text = without_secrets(str(said))[:_SHOWN]
        raise SignerRefusedError(f"{who} refused {method}: {text}")
    if "result" not in answer:
        raise TransientError(f"{who} answered {method} without a result")
    return answer["result"]


def _bytes(told: object, name: str) -> bytes:
    try:
        if isinstance(told, str) and told.startswith("0x"):
            return bytes.fromhex(told[2:])
    except ValueError:
        # Invalid hex is reported below, like a value that is not a string.
        told = None
    raise WrongSignatureError(f"the signer at {name} answered with no bytes")
