"""An account without any role that kicks out whoever is due, by proofs that anyone can fetch.

The stranger has no key of the daemon and no access to its database: leaf and proof come from the
HTTP API, and the contract verifies them.
"""

from collections.abc import Iterable

from devnet.demo.node_proofs import fetch_node_proof
from devnet.demo.stage import Stage
from oracle.bindings.qos_roots import encode_accuse_call, encode_execute_kick_call
from oracle.domain.ids import Address

# Gas of a kickout: the oracle forwards up to 600,000 to the network.
_GAS = hex(2_000_000)
# More than the daemon pays, so that the stranger's call is the first one in a block.
_FEES = {"maxFeePerGas": hex(1_000 * 10**9), "maxPriorityFeePerGas": hex(100 * 10**9)}


class Stranger:
    """Accuses nodes whose kickout is due in the last round, and executes their kickouts."""

    def __init__(self, stage: Stage, api_url: str) -> None:
        self._stage = stage
        self._api_url = api_url

    def build_next_transactions(self, due_nodes: Iterable[Address]) -> list[dict[str, str]]:
        """Return the calls of the next block that the contract accepts now."""
        return [
            call
            for node in due_nodes
            for call in self._build_calls(node)
            if self._stage.chain.get_revert_data(call) is None
        ][:1]

    def _build_calls(self, node: Address) -> list[dict[str, str]]:
        """Return an accusation and an execution; the contract accepts at most one of them."""
        proof = fetch_node_proof(self._api_url, node)
        if proof is None or not proof.leaf.kickout_due_since:
            return []
        leaf, hashes = proof.leaf, proof.hashes
        return [
            self._build_call(calldata)
            for calldata in (
                encode_accuse_call(leaf, hashes),
                encode_execute_kick_call(leaf, hashes, proof.summary),
            )
        ]

    def _build_call(self, calldata: str) -> dict[str, str]:
        return {
            "from": self._stage.stranger,
            "to": self._stage.oracle,
            "data": calldata,
            "gas": _GAS,
            **_FEES,
        }
