"""Receipts of whole blocks of the three nodes contain the logs of `eth_getLogs`."""

from pathlib import Path

import pytest

from devnet.demo.show import create_keys
from oracle.chain.verification.full_headers import fetch_required_headers
from oracle.chain.verification.receipt_fetch import fetch_receipts
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.endpoints.endpoint import Endpoint
from tests.integration.clients.networks import a_network
from tests.integration.clients.nodes import NODES, install

# Three kinds of nodes, two of them from npm.
pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.evm]


@pytest.mark.parametrize("kind", NODES)
def test_log_indexes_from_receipts_match_those_of_the_node(kind: str, tmp_path: Path):
    """Ganache counts the logs of each receipt from 0."""
    install()
    keys = tmp_path / "keys"
    keys.mkdir()
    with a_network(kind, tmp_path / kind, create_keys(keys)) as network:
        newest = network.chain.number
        endpoint = Endpoint(JsonRpcClient(network.chain.url))
        ((_, receipts),) = fetch_receipts(
            endpoint, [fetch_required_headers(endpoint, [newest])[newest]]
        )
        log_filter = {"fromBlock": hex(newest), "toBlock": hex(newest)}
        logs = network.chain.make_request("eth_getLogs", log_filter)

    decoded_logs = [(log.log_index, log.data) for receipt in receipts for log in receipt.logs]
    assert decoded_logs == [(log["logIndex"], log["data"]) for log in logs]
    # The nodes join in this block.
    assert len(logs) == 12
