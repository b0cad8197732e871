"""Calls and settings of the contract Objections, which takes objections to kickouts."""

from dataclasses import astuple

from oracle.bindings.codec import build_creation_code, compute_code_hash, encode_call
from oracle.bindings.contract_views import (
    DeployedContract,
    ViewCall,
    call_views,
    fetch_contract_code,
)
from oracle.bindings.inspection import ContractMismatch
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address
from oracle.rpc.fanout import PoolView
from oracle.signing.typed_data import ObjectionStatement

CONTRACT = "roots/Objections"


class ObjectionsContract:
    """Reads the objections contract at an address.

    All values of a read are as of one block.
    """

    def __init__(self, pool_view: PoolView, address: Address) -> None:
        self._pool_view = pool_view
        self._contract = DeployedContract(CONTRACT, address, "objections.address")

    def find_mismatches(self, oracle: Address, block: BlockRef) -> list[ContractMismatch]:
        """Return all reasons why the contract cannot take objections for this oracle.

        The objections are to the oracle's kickouts.

        Raises:
            TransientError: no endpoint returns the contract's state.
        """
        ((served_oracle,),) = call_views(
            self._pool_view, self._contract, block, [ViewCall("ORACLE")]
        )
        code = fetch_contract_code(self._pool_view, self._contract, block)
        comparisons = (
            ("code hash", compute_code_hash(CONTRACT), compute_code_hash(CONTRACT, code)),
            ("oracle", oracle, served_oracle.lower()),
        )
        return [
            ContractMismatch(f"{subject} of the objections", expected_value, actual)
            for subject, expected_value, actual in comparisons
            if expected_value != actual
        ]

    def fetch_next_objection_seq(self, node: Address, block: BlockRef) -> int:
        """Fetch the number of the node's next objection.

        Raises:
            TransientError: no endpoint returns the contract's state.
        """
        calls = [ViewCall("nextSeq", (node,))]
        ((seq,),) = call_views(self._pool_view, self._contract, block, calls)
        return int(seq)


def build_objections_creation_code(oracle: Address) -> str:
    """Build the creation code of the objections contract for an oracle."""
    return build_creation_code(CONTRACT, oracle)


def encode_signed_objection_call(statement: ObjectionStatement, signature: bytes) -> str:
    """Encode the call that submits a signed objection."""
    return encode_call(CONTRACT, "objectFor", astuple(statement), signature)
