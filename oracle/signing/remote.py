"""A key behind another host's JSON-RPC (Web3Signer, Clef, a KMS proxy): asked once, then checked.

The wire is `line.Line`'s opposite number: one request, one answer, no retries, no redirects, a
limit on time and size. What comes back is believed in nothing (tests/sending/cases.toml#f70).
"""

import itertools
import json
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import requests
from typing_extensions import override
from urllib3.exceptions import HTTPError

from oracle.domain.ids import Address
from oracle.errors import InputError, TransientError
from oracle.rpc.replies import is_of
from oracle.rpc.transport import DeadlineAdapter, body_of
from oracle.signing.key_locations import RemoteKey, Wire
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
from oracle.telemetry.logging_setup import hide, without_secrets
from oracle.telemetry.metrics import RPC_CALLS, RPC_ERRORS, RPC_SECONDS

# A batch of starts is far smaller; a report of 1,024 words is 80 KiB in hex.
_MOST_BYTES = 1 << 20
# What a signer says when it refuses is shown, but not at any length.
_SHOWN = 200


class RemoteSigner:
    """One account. `repr` shows its address and host alone."""

    __slots__ = ("_address", "_name", "_numbers", "_session", "_url", "_wire")

    def __init__(self, place: RemoteKey) -> None:
        """Nothing is asked yet.

        Raises:
            InputError: a file of the wire is missing or may be read by others.
        """
        self._address = Address(place.address.lower())
        self._url = place.url
        self._wire = place.wire
        self._name = urlsplit(place.url).hostname or "the remote signer"
        self._session = _session(place.wire)
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
        told = self._ask(self._wire.typed_data_method, [self.address, written])
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
        except (
            requests.RequestException,
            HTTPError,
            OSError,
            ValueError,
            RecursionError,
        ) as error:
            RPC_ERRORS.labels(method).inc()
            # The message of either may hold the URL, and the URL a token.
            raise TransientError(
                f"the signer at {self._name} did not answer {method} ({_shortly(error)}): "
                "it is asked again for the same"
            ) from None
        return _result(answer, number, f"the signer at {self._name}", method)

    def _post(self, asked: Mapping[str, object]) -> bytes:
        """Return the answer's bytes.

        Raises:
            OSError (requests' errors are such), HTTPError: none, not in time, or too large.
        """
        end = time.monotonic() + self._wire.timeout_seconds
        with self._session.post(
            self._url,
            json=asked,
            timeout=self._wire.timeout_seconds,
            allow_redirects=False,
            stream=True,
        ) as answered:
            if answered.status_code != requests.codes.ok:
                # A redirect too: no other host is shown what is to be signed.
                raise requests.HTTPError(response=answered)
            # Whoever drips bytes is never late for any one of them.
            body = body_of(answered.raw, _MOST_BYTES, end)
        if len(body) > _MOST_BYTES:
            raise requests.exceptions.ContentDecodingError
        return body


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


def _session(wire: Wire) -> requests.Session:
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, DeadlineAdapter())
    # No proxy and no .netrc of the environment between us and a key.
    session.trust_env = False
    if wire.certificate is not None and wire.certificate_key is not None:
        # Read once for its mode: requests takes the paths.
        read_secret(wire.certificate_key)
        session.cert = (str(_there(wire.certificate)), str(wire.certificate_key))
    if wire.ca_file is not None:
        session.verify = str(_there(wire.ca_file))
    if wire.token_file is not None:
        token = read_secret(wire.token_file).strip()
        if not token.isascii() or not token.isprintable() or not token:
            raise InputError(f"{wire.token_file}: holds no token")
        hide(token)
        session.headers["Authorization"] = f"Bearer {token}"
    return session


def _shortly(error: Exception) -> str:
    """Return what went wrong, in words that hold no address: a status, or the error's name."""
    answered = error.response if isinstance(error, requests.RequestException) else None
    return type(error).__name__ if answered is None else f"HTTP {answered.status_code}"


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
