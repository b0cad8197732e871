"""Simulates an account without any role that kicks nodes out by public proofs.

The stranger has no key of the daemon and no access to its database. Leaf and proof come from the
HTTP API, and the contract verifies them.
"""

import time
from collections.abc import Iterable

from devnet.demo.node_proofs import ServedProof, fetch_node_proof
from devnet.demo.stage import Stage
from oracle.bindings.codec import decode_result, encode_call
from oracle.bindings.qos_roots import (
    CONTRACT,
    encode_accuse_call,
    encode_execute_kick_call,
)
from oracle.domain.ids import Address

# A kickout needs a lot of gas, because the oracle forwards up to 600,000 to the network.
_GAS = hex(2_000_000)
# These fees are higher than the daemon's, so that the stranger's call comes first in a block.
STRANGER_FEES = {"maxFeePerGas": hex(1_000 * 10**9), "maxPriorityFeePerGas": hex(100 * 10**9)}
# Maximum seconds for which the chain waits for the proof of a new round. Without this wait, the
# daemon might kick out the node before the stranger does on a slow machine.
_MAX_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.05


class Stranger:
    """Accuses nodes whose kickout is due in the last round, and executes the kickouts."""

    def __init__(self, stage: Stage, api_url: str) -> None:
        self._stage = stage
        self._api_url = api_url

    def build_next_transactions(self, due_nodes: Iterable[Address]) -> list[dict[str, str]]:
        """Build at most one transaction that the contract will accept in the next block."""
        return [
            call
            for node in due_nodes
            for call in self._build_kickout_transactions(node)
            if self._stage.chain.fetch_revert_data(call) is None
        ][:1]

    def _build_kickout_transactions(self, node: Address) -> list[dict[str, str]]:
        """Build an accusation and an execution.

        The contract accepts at most one of them.
        """
        proof = self._wait_for_proof(node)
        if proof is None or not proof.leaf.kickout_due_since:
            return []
        leaf, hashes = proof.leaf, proof.hashes
        return [
            self._build_transaction(calldata)
            for calldata in (
                encode_accuse_call(leaf, hashes),
                encode_execute_kick_call(leaf, hashes, proof.summary),
            )
        ]

    def _wait_for_proof(self, node: Address) -> ServedProof | None:
        """Wait for a node's proof in the last accepted round.

        Return None if the API has none.
        """
        head_call = {"to": self._stage.oracle, "data": encode_call(CONTRACT, "head")}
        (head,) = decode_result(
            CONTRACT, "head", self._stage.chain.make_request("eth_call", head_call, "latest")
        )
        previous_round = head[0]
        deadline = time.monotonic() + _MAX_WAIT_SECONDS
        while previous_round and time.monotonic() < deadline:
            proof = fetch_node_proof(self._api_url, node, previous_round)
            if proof is not None:
                return proof
            # The API serves the proof once the daemon has indexed the round's block.
            time.sleep(_POLL_SECONDS)
        return None

    def _build_transaction(self, calldata: str) -> dict[str, str]:
        return {
            "from": self._stage.stranger,
            "to": self._stage.oracle,
            "data": calldata,
            "gas": _GAS,
            **STRANGER_FEES,
        }
