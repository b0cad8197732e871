"""A key behind another host's JSON-RPC (Web3Signer, Clef, a KMS proxy): asked once, then checked.

One request, one answer, no retries, no redirects, a limit on time and size: `rpc.transport`. What
comes back is believed in nothing (tests/faults/sending/cases.toml#f70).
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

# A batch of starts is far smaller; a report of 1,024 words is 80 KiB in hex.
_MOST_BYTES = 1 << 20
# What a signer says when it refuses is shown, but not at any length.
_SHOWN = 200


class RemoteSigner:
    """One account. `repr` shows its address and host alone."""

    __slots__ = ("_address", "_http", "_name", "_numbers", "_place")

    def __init__(self, place: RemoteKey) -> None:
        """Nothing is asked yet.

        Raises:
            InputError: a file of the wire is missing or may be read by others.
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
        """Have a report or a kickout signed, as a whole EIP-712 structure. See `Signer`."""
        written = json.dumps(typed(statement, domain))
        told = self._ask(self._place.typed_data_method, [self.address, written])
        raw = _bytes(told, self._name)
        if raw[-1:] in {b"\x00", b"\x01"}:
            # Some write the parity alone.
            raw = raw[:-1] + bytes([raw[-1] + 27])
        return checked_statement(raw, statement.digest(domain), self.address)

    def sign_transaction(self, transaction: TransactionRequest) -> SignedBytes:
        """Have a transaction of type 2 signed. See `Signer`."""
        told = self._ask("eth_signTransaction", [asked_for(transaction, self.address)])
        # Geth and Clef wrap it.
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
        """Return the answer's bytes.

        Raises:
            RpcError: none, or not in time.
            ValueError: another status, or too large.
        """
        seconds = self._place.timeout_seconds
        # Whoever drips bytes is never late for any one of them: as a whole it is.
        answer = self._http.post(json.dumps(asked).encode(), seconds, seconds)
        if answer.status != HTTPStatus.OK:
            # A redirect too: no other host is shown what is to be signed.
            raise _NotSignedError(f"HTTP {answer.status}")
        if answer.is_cut:
            raise _NotSignedError(f"more than {_MOST_BYTES} bytes")
        return answer.body


class _NotSignedError(ValueError):
    """An answer that is none, in words that hold no address."""


def asked_for(transaction: TransactionRequest, sender: Address) -> dict[str, object]:
    """Return the parameter of `eth_signTransaction`: every field that is signed."""
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
        # Read once for its mode: requests takes the paths.
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
    """Return what went wrong, in words that hold no address."""
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
        # Said below, as of what is no text at all.
        told = None
    raise WrongSignatureError(f"the signer at {name} answered with no bytes")
