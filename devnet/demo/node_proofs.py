"""Fetches proofs of nodes from the HTTP API, and verifies them on the local chain.

The library QoSProof verifies them there, and consumer contracts contain the same code.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import requests

from devnet.anvil import LocalChain
from oracle.bindings.codec import decode_result, encode_call, load_artifact
from oracle.bindings.qos_roots import build_leaf_values
from oracle.domain.ids import Address
from oracle.domain.roots.leaves import NodeLeaf, RoundSummary
from oracle.errors import FatalError

_TIMEOUT_SECONDS = 30
# This contract exposes the functions of the library QoSProof.
_PROBE = "testing/ProofProbe"
# During a call, this account has the contract's code, so nothing needs to be deployed.
_PROBE_ADDRESS = "0x" + "51" * 20


@dataclass(frozen=True, slots=True)
class ServedProof:
    """A proof from the API with the leaf and the summary of its round.

    The leaf belongs to the requested address, or proves that the address has no leaf.
    """

    is_absent: bool
    leaf: NodeLeaf
    hashes: tuple[bytes, ...]
    summary: RoundSummary


def fetch_node_proof(
    api_url: str, node: Address, round_number: int | None = None
) -> ServedProof | None:
    """Fetch the proof of a node in a round, or return None if the API has no such proof.

    By default, the round is the newest accepted round that the daemon has indexed.

    Raises:
        FatalError: the API does not respond.
    """
    parameters = {} if round_number is None else {"round": str(round_number)}
    response = _fetch_response(f"{api_url}/v1/nodes/{node}/proof", parameters)
    if response.status_code != HTTPStatus.OK:
        return None
    return _parse_proof(response.json()["proof"])


def fetch_api_json(url: str) -> dict[str, Any]:
    """Fetch the JSON body of the HTTP API's response to `url`.

    Raises:
        FatalError: the API does not respond, or reports an error.
    """
    response = _fetch_response(url, {})
    if response.status_code != HTTPStatus.OK:
        raise FatalError(f"{url}: status {response.status_code}")
    body: dict[str, Any] = response.json()
    return body


def post_api_json(url: str, body: dict[str, object]) -> tuple[int, dict[str, Any]]:
    """Post JSON to the HTTP API, and return status code and body of the response.

    Raises:
        FatalError: the API does not respond.
    """
    try:
        response = requests.post(url, json=body, timeout=_TIMEOUT_SECONDS)
        return response.status_code, response.json()
    except requests.RequestException as error:
        raise FatalError(f"{url}: {error}") from None


def _fetch_response(url: str, parameters: dict[str, str]) -> requests.Response:
    try:
        return requests.get(url, params=parameters, timeout=_TIMEOUT_SECONDS)
    except requests.RequestException as error:
        raise FatalError(f"{url}: {error}") from None


def verify_proof_on_chain(
    chain: LocalChain, oracle: Address, node: Address, proof: ServedProof
) -> bool:
    """Return whether the proof leads to the root that the oracle contract has stored.

    The root is that of the proof's round.
    """
    root_call = {
        "to": oracle,
        "data": encode_call("roots/QoSRoots", "rootOf", proof.summary.round),
    }
    (root,) = decode_result(
        "roots/QoSRoots", "rootOf", chain.make_request("eth_call", root_call, "latest")
    )
    leaf = build_leaf_values(proof.leaf)
    function_name, arguments = (
        ("verifyAbsence", (root, node, leaf, proof.hashes))
        if proof.is_absent
        else ("verifyLeaf", (root, leaf, proof.hashes))
    )
    call = {"to": _PROBE_ADDRESS, "data": encode_call(_PROBE, function_name, *arguments)}
    code = {_PROBE_ADDRESS: {"code": load_artifact(_PROBE)["deployedBytecode"]}}
    result_hex = chain.make_request("eth_call", call, "latest", code)
    (is_verified,) = decode_result(_PROBE, function_name, result_hex)
    return bool(is_verified) and (proof.is_absent or proof.leaf.node == node)


def _parse_proof(detail: dict[str, Any]) -> ServedProof:
    summary = detail["summary"]
    integer_fields = ("round", "as_of", "node_count", "open_count", "total_weight")
    return ServedProof(
        is_absent=detail["is_absent"],
        leaf=NodeLeaf.decode(bytes.fromhex(detail["leaf"]["encoded"][2:])),
        hashes=tuple(bytes.fromhex(sibling[2:]) for sibling in detail["proof"]),
        summary=RoundSummary(
            summary["chain_id"],
            Address(summary["oracle"]),
            *(int(summary[number]) for number in integer_fields),
        ),
    )
