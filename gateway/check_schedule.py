"""Checks each chain's nodes and reads the stakes periodically, on separate threads.

A probe requests the chain id and the block height of a node by JSON-RPC. It never counts as an
outcome of a relay. See docs/explanation/gateway.md#checks.
"""

import random
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from gateway.gateway_config import ChecksSection
from gateway.node_checks import ProbeAnswer
from gateway.selection_service import SelectionService
from oracle.domain.state import Membership
from oracle.errors import OracleError
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.rpc_errors import RpcError
from oracle.store.database import Store
from oracle.telemetry.logger import get_logger
from oracle.telemetry.logging_setup import is_power_of_two

# Maximum size of a response. It is generous, because a response contains only a single number.
_MAX_BYTES = 64 * 1024
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,16}")
_MAX_QUANTITY = 2**63


class NodeProbe:
    """Probes the nodes of one chain.

    A response must begin within `timeout_seconds`.

    Raises:
        InputError: a URL is invalid.
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
        """Probe all nodes once, and return the answers keyed by node name.

        At most `max_concurrent` nodes are probed at the same time.
        """
        probe_answers = self._pool.map(_probe_node, self._clients.values())
        return dict(zip(self._clients, probe_answers, strict=True))

    def close(self) -> None:
        """Close the connections and the thread pool, without waiting for running probes."""
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


# Minimum seconds between two rounds of checks. An outcome that blames a node's settings requests a
# round, but does not shorten this interval.
_MIN_ROUND_SECONDS = 5.0


class ChainCheck:
    """Checks all nodes of one chain in rounds.

    `request_round` starts the next round early.
    """

    def __init__(
        self,
        chain: str,
        section: ChecksSection,
        service: SelectionService,
        min_seconds: float = _MIN_ROUND_SECONDS,
    ) -> None:
        """Set up the checks.

        `min_seconds` is the minimum time between two rounds.
        """
        self._chain = chain
        self._min_seconds = min_seconds
        self._section = section
        self._service = service
        self._probe = NodeProbe(section.urls, section.timeout_seconds, section.most_at_once)
        self._run_requested = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run_rounds, name=f"checks {chain}", daemon=True
        )

    def start_checks(self) -> None:
        """Start the first round of checks now, and further rounds periodically."""
        self._thread.start()

    def request_round(self) -> None:
        """Request the next round of checks.

        It starts at once or after the minimum time between rounds.
        """
        self._run_requested.set()

    def stop_checks(self) -> None:
        """Stop further rounds of checks, and close the connections to the nodes."""
        self._stopped.set()
        self._run_requested.set()
        self._probe.close()

    def check_nodes(self) -> None:
        """Probe all nodes once, and apply their answers."""
        try:
            probe_answers = self._probe.probe_nodes()
        except RuntimeError:
            # The pool was closed just before this round could start.
            if self._stopped.is_set():
                return
            raise
        if not self._stopped.is_set():
            self._service.apply_probe_answers(self._chain, probe_answers)

    def _run_rounds(self) -> None:
        while not self._stopped.is_set():
            self._run_requested.clear()
            self.check_nodes()
            jitter_share = random.random() * self._section.jitter  # noqa: S311  no secret
            wait_seconds = self._section.every_seconds * (1 + jitter_share)
            min_wait = min(wait_seconds, self._min_seconds)
            if not self._stopped.wait(min_wait):
                self._run_requested.wait(wait_seconds - min_wait)


class StakeWatch:
    """Reads the staked nodes from a daemon's database.

    After a failure, the last set is kept.
    """

    def __init__(self, store: Store, every_seconds: float, service: SelectionService) -> None:
        self._store = store
        self._every_seconds = every_seconds
        self._service = service
        self._stopped = threading.Event()
        self._failures = 0

    def start_updates(self) -> None:
        """Read the stakes once before returning, and then periodically."""
        self._try_update_staked_nodes()
        threading.Thread(target=self._run_updates, name="stakes", daemon=True).start()

    def stop_updates(self) -> None:
        """Stop reading stakes."""
        self._stopped.set()

    def update_staked_nodes(self) -> None:
        """Read the staked nodes from the database, and pass them to the service.

        They are read once.

        Raises:
            OracleError: the database cannot be read.
        """
        with self._store.read_transaction() as uow:
            staked_nodes = [
                node.address
                for node in uow.nodes.iterate_all()
                if node.membership is Membership.MEMBER and node.stake
            ]
        self._service.set_staked_nodes(staked_nodes)

    def _run_updates(self) -> None:
        while not self._stopped.wait(self._every_seconds):
            self._try_update_staked_nodes()

    def _try_update_staked_nodes(self) -> None:
        try:
            self.update_staked_nodes()
        except OracleError as error:
            self._failures += 1
            if is_power_of_two(self._failures):
                get_logger().warning("stakes_read_failed", reason=str(error))


class CheckSchedule:
    """All periodic checks of a gateway."""

    def __init__(self, chains: Iterable[ChainCheck], stakes: StakeWatch | None) -> None:
        self._chains = list(chains)
        self._stakes = stakes

    def start_all_checks(self) -> None:
        for start_checker in self._list_start_functions():
            start_checker()

    def request_rounds(self) -> None:
        """Request the next round of checks for each chain.

        A round starts at once or after the minimum time.
        """
        for chain in self._chains:
            chain.request_round()

    def stop_all_checks(self) -> None:
        """Stop all checks, without waiting for a running round."""
        for chain in self._chains:
            chain.stop_checks()
        if self._stakes is not None:
            self._stakes.stop_updates()

    def _list_start_functions(self) -> list[Callable[[], None]]:
        stake_starters = [] if self._stakes is None else [self._stakes.start_updates]
        return [*stake_starters, *(chain.start_checks for chain in self._chains)]
