"""Probes a node by JSON-RPC for its chain id and its block height.

A probe never counts as an outcome (docs/explanation/gateway.md#checks).
"""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from gateway.node_checks import ProbeAnswer
from oracle.errors import OracleError
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.rpc_errors import RpcError

# The largest response; each response is a single number.
_MAX_BYTES = 64 * 1024
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,16}")
_MAX_QUANTITY = 2**63


class NodeProbe:
    """Probes the nodes of one chain; `timeout_seconds` limits the wait until a response begins.

    Raises:
        InputError: one of the URLs is invalid.
    """

    def __init__(
        self, urls: Mapping[str, str], timeout_seconds: float, max_concurrent: int
    ) -> None:
        self._clients = {
            node: JsonRpcClient(url, timeout_seconds=timeout_seconds, max_bytes=_MAX_BYTES)
            for node, url in urls.items()
        }
        self._pool = ThreadPoolExecutor(max_concurrent, thread_name_prefix="probe")

    def probe_nodes(self) -> dict[str, ProbeAnswer]:
        """Probe all nodes once, at most `max_concurrent` at a time; return the answers by name."""
        answers = self._pool.map(_probe_node, self._clients.values())
        return dict(zip(self._clients, answers, strict=True))

    def close_connections(self) -> None:
        """Close the connections without waiting for running probes."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for client in self._clients.values():
            client.close()


def _probe_node(client: JsonRpcClient) -> ProbeAnswer:
    try:
        chain_id = _parse_quantity(client.call("eth_chainId", [], str))
        return ProbeAnswer(chain_id, _parse_quantity(client.call("eth_blockNumber", [], str)))
    except RpcError as error:
        return ProbeAnswer(fault=f"probe_{error.kind.value}")
    except OracleError:
        return ProbeAnswer(fault="probe_failed")


def _parse_quantity(quantity: str | None) -> int | None:
    if quantity is None or _QUANTITY.fullmatch(quantity) is None:
        return None
    number = int(quantity, 16)
    return number if number < _MAX_QUANTITY else None
