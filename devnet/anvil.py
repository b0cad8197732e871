"""Runs Anvil, a local EVM chain that mines blocks on request at given times.

Anvil writes nothing to disk. It keeps enough history for every reorg and every old state that the
demo requests.
"""

import itertools
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any

import requests

from devnet.toolchain import find_or_install_anvil
from oracle.errors import FatalError, InputError

CHAIN_ID = 31337
_LISTENING_PREFIX = "Listening on "
# Number of blocks whose state Anvil keeps. It is larger than in any demo, because a pruned block
# could no longer be read. Each state takes half a megabyte, so the limit bounds the memory of a
# chain that runs for days.
_MAX_HISTORY_BLOCKS = 2_000
_REQUEST_TIMEOUT_SECONDS = 120
# Anvil stops immediately on SIGTERM unless it hangs.
_STOP_TIMEOUT_SECONDS = 10


@contextmanager
def run_anvil(*, port: int, accounts: int, start_time: int) -> Iterator[str]:
    """Run Anvil and yield its URL.

    If `port` is 0, any free port is selected. `start_time` is the timestamp of block 0.

    Raises:
        InputError: the port is in use, or Anvil cannot be installed.
    """
    with tempfile.TemporaryDirectory(prefix="qos-oracle-anvil-") as cache_folder:
        anvil_command = [
            *(str(find_or_install_anvil()), "--host", "127.0.0.1", "--port", str(port)),
            *("--accounts", str(accounts), "--chain-id", str(CHAIN_ID)),
            *("--timestamp", str(start_time), "--no-mining", "--order", "fees"),
            *("--prune-history", str(_MAX_HISTORY_BLOCKS), "--cache-path", cache_folder),
            # With this option, the final block is two below the head instead of 64 below it.
            *("--slots-in-an-epoch", "1"),
        ]
        with subprocess.Popen(  # noqa: S603 - the binary that we found ourselves
            anvil_command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # In a process group of its own, Anvil does not receive Ctrl-C. The parent process
            # does, and shuts the chain down in order.
            process_group=0,
        ) as process:
            # Anvil prints a line per request and would block if nobody read them from the pipe.
            drain_thread = Thread(target=_drain_output, args=(process,), daemon=True)
            try:
                url = _wait_for_url(process, port)
                drain_thread.start()
                yield url
            finally:
                _stop_process(process)
                # The thread that reads the pipe must end before the pipe is closed.
                if drain_thread.ident is not None:
                    drain_thread.join()


def _wait_for_url(process: "subprocess.Popen[str]", port: int) -> str:
    """Wait for Anvil's "Listening on" line, and return the URL in it."""
    last_line = "no output"
    for line in process.stdout or ():
        if line.startswith(_LISTENING_PREFIX):
            return f"http://{line.removeprefix(_LISTENING_PREFIX).strip()}"
        last_line = line.strip() or last_line
    raise InputError(
        f"Anvil did not start on port {port}: {last_line}; check that the port is free"
    )


def _stop_process(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _drain_output(process: "subprocess.Popen[str]") -> None:
    for _ in process.stdout or ():
        pass


class LocalChain:
    """A JSON-RPC client of Anvil.

    Many calls can be sent in one request. All accounts of the chain are unlocked, so transactions
    need no signature.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()

    def close(self) -> None:
        self._session.close()

    def make_request(self, method: str, *params: Any) -> Any:  # noqa: ANN401 - JSON has no narrower type
        """Send a JSON-RPC call, and return its result."""
        return self.make_batch_request([(method, *params)])[0]

    def make_batch_request(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send a batch of JSON-RPC calls, and return the results in the same order.

        Raises:
            FatalError: the chain rejects a call; the message names the method and the reason.
        """
        batch = [
            {"jsonrpc": "2.0", "id": request_id, "method": call[0], "params": list(call[1:])}
            for request_id, call in enumerate(calls)
        ]
        responses = self._post_json(batch)
        for response in responses:
            if "error" in response:
                method = calls[response["id"]][0]
                raise FatalError(f"the local chain rejected {method}: {response['error']}")
        return [response["result"] for response in responses]

    def mine(self, timestamp: int, transactions: Sequence[dict[str, str]] = ()) -> list[str]:
        """Mine a block with these transactions, and return their hashes.

        Transactions that are already in Anvil's pool are mined as well. A transaction that pays a
        higher fee comes first; transactions with equal fees keep the order in which they were
        sent.
        """
        send_requests = [("eth_sendTransaction", transaction) for transaction in transactions]
        # Anvil runs the calls of a batch concurrently. In the same batch, it might mine a block
        # before it has added a transaction, so mining is requested afterwards. JSON-RPC does not
        # allow an empty batch.
        transaction_hashes = self.make_batch_request(send_requests) if send_requests else []
        self.make_batch_request([("evm_setNextBlockTimestamp", timestamp), ("evm_mine",)])
        return [str(transaction_hash) for transaction_hash in transaction_hashes]

    def mine_and_check_receipts(
        self, timestamp: int, transactions: Sequence[dict[str, str]]
    ) -> list[dict[str, Any]]:
        """Mine a block with transactions that must succeed, and return their receipts.

        Raises:
            FatalError: a transaction failed.
        """
        transaction_hashes = self.mine(timestamp, transactions)
        receipt_calls = [
            ("eth_getTransactionReceipt", transaction_hash)
            for transaction_hash in transaction_hashes
        ]
        # JSON-RPC does not allow an empty batch.
        receipts = self.make_batch_request(receipt_calls) if receipt_calls else []
        for transaction_hash, receipt in zip(transaction_hashes, receipts, strict=True):
            if receipt is None or receipt["status"] != "0x1":
                raise FatalError(
                    f"the local network's transaction {transaction_hash} failed; this is a bug"
                )
        return receipts

    def fetch_revert_data(self, call: dict[str, str]) -> str | None:
        """Return the revert data of a call, or None if the call succeeds."""
        body = {"jsonrpc": "2.0", "id": 0, "method": "eth_call", "params": [call, "latest"]}
        response = self._post_json(body)
        return str(response["error"].get("data", "0x")) if "error" in response else None

    def _post_json(self, body: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
        """Send a JSON-RPC request body and return the decoded response.

        Raises:
            FatalError: the chain has ended, times out, or its response is not JSON.
        """
        try:
            return self._session.post(self.url, json=body, timeout=_REQUEST_TIMEOUT_SECONDS).json()
        except requests.Timeout:
            raise FatalError(
                f"the local chain at {self.url}: no response from Anvil within "
                f"{_REQUEST_TIMEOUT_SECONDS} s; the machine may be out of memory or overloaded; "
                "run the command again"
            ) from None
        except requests.ConnectionError:
            raise FatalError(
                f"the local chain at {self.url}: Anvil has exited; run the command again"
            ) from None
        except requests.RequestException as error:
            raise FatalError(f"the local chain at {self.url}: {error}") from None


# Linux assigns ephemeral ports from 32768 on, and other systems assign higher ones. Another
# process could take a port of that range before a program binds it.
_PORT_RANGE = range(20_000, 32_000)
# The search starts at a port that depends on the process id. Processes that start together
# therefore search far apart.
_PROCESS_STRIDE = 101
# A port is never returned twice, because the first program may not have bound it yet.
_port_counter = itertools.count()


def find_free_port() -> int:
    """Find a free port outside the system's range of ephemeral ports.

    Raises:
        FatalError: every port is in use.
    """
    start_index = os.getpid() * _PROCESS_STRIDE
    for _ in _PORT_RANGE:
        port = _PORT_RANGE[(start_index + next(_port_counter)) % len(_PORT_RANGE)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise FatalError(f"every port from {_PORT_RANGE[0]} to {_PORT_RANGE[-1]} is in use")
