"""A local EVM chain for the demo; it mines blocks on request, with the timestamps it is given.

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

from devnet.toolchain import anvil as anvil_binary
from oracle.errors import FatalError, InputError

CHAIN_ID = 31337
_LISTENING = "Listening on "
# More blocks than a demo mines; pruned blocks cannot be read or reorganised. The limit bounds the
# memory of a chain that runs for days, because each kept state takes half a megabyte.
_KEPT_BLOCKS = 2_000
_REQUEST_SECONDS = 120
# Anvil stops immediately on SIGTERM, unless it hangs.
_END_SECONDS = 10


@contextmanager
def anvil(*, port: int, accounts: int, start_time: int) -> Iterator[str]:
    """Run Anvil and yield its URL.

    `port` 0 selects any free port; `start_time` is the timestamp of block 0.

    Raises:
        InputError: the port is in use, or Anvil cannot be installed.
    """
    with tempfile.TemporaryDirectory(prefix="qos-oracle-anvil-") as cache:
        command = [
            *(str(anvil_binary()), "--host", "127.0.0.1", "--port", str(port)),
            *("--accounts", str(accounts), "--chain-id", str(CHAIN_ID)),
            *("--timestamp", str(start_time), "--no-mining", "--order", "fifo"),
            *("--prune-history", str(_KEPT_BLOCKS), "--cache-path", cache),
            # Anvil then reports blocks two below the head as final; its default is 64.
            *("--slots-in-an-epoch", "1"),
        ]
        with subprocess.Popen(  # noqa: S603 - the binary that we found ourselves
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Ctrl-C must reach only the parent process, which stops the chain in order.
            process_group=0,
        ) as running:
            # Anvil prints a line per request; a full pipe that is not read would block Anvil.
            draining = Thread(target=_drain, args=(running,), daemon=True)
            try:
                url = _url(running, port)
                draining.start()
                yield url
            finally:
                _end(running)
                # Join the reader before the pipe is closed.
                if draining.ident is not None:
                    draining.join()


def _url(running: "subprocess.Popen[str]", port: int) -> str:
    """Return the URL from Anvil's "Listening on" line, waiting until the line is printed."""
    last = "it said nothing"
    for line in running.stdout or ():
        if line.startswith(_LISTENING):
            return f"http://{line.removeprefix(_LISTENING).strip()}"
        last = line.strip() or last
    raise InputError(f"Anvil does not start on port {port}: {last}; is the port in use?")


def _end(running: "subprocess.Popen[str]") -> None:
    running.terminate()
    try:
        running.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        running.kill()


def _drain(running: "subprocess.Popen[str]") -> None:
    for _ in running.stdout or ():
        pass


class LocalChain:
    """JSON-RPC client of Anvil that can send many calls in one request; accounts are unlocked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()

    def close(self) -> None:
        self._session.close()

    def ask(self, method: str, *params: Any) -> Any:  # noqa: ANN401 - JSON has no narrower type
        """Return the result of one JSON-RPC call."""
        return self.ask_all([(method, *params)])[0]

    def ask_all(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the results of a batch of JSON-RPC calls, in the order of the calls.

        Raises:
            FatalError: the chain rejects a call; the message names the method and the reason.
        """
        body = [
            {"jsonrpc": "2.0", "id": place, "method": call[0], "params": list(call[1:])}
            for place, call in enumerate(calls)
        ]
        answers = self._post(body)
        for answer in answers:
            if "error" in answer:
                method = calls[answer["id"]][0]
                raise FatalError(f"the local chain refuses {method}: {answer['error']}")
        return [answer["result"] for answer in answers]

    def mine(self, time: int, transactions: Sequence[dict[str, str]] = ()) -> list[str]:
        """Mine one block with the transactions, in this order, and return their hashes.

        Transactions that are already in Anvil's pool are mined as well.
        """
        calls: list[tuple[Any, ...]] = [("eth_sendTransaction", sent) for sent in transactions]
        block = [("evm_setNextBlockTimestamp", time), ("evm_mine",)]
        return [str(sent) for sent in self.ask_all([*calls, *block])[: len(calls)]]

    def mined(self, time: int, transactions: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
        """Mine one block with transactions that must succeed, and return their receipts.

        Raises:
            FatalError: a transaction failed.
        """
        sent = self.mine(time, transactions)
        asked = [("eth_getTransactionReceipt", one) for one in sent]
        # JSON-RPC has no empty batch.
        receipts = self.ask_all(asked) if asked else []
        for one, receipt in zip(sent, receipts, strict=True):
            if receipt is None or receipt["status"] != "0x1":
                raise FatalError(f"the local network's own transaction {one} failed: a bug")
        return receipts

    def refusal(self, call: dict[str, str]) -> str | None:
        """Return the revert data of a call, or None if the call succeeds."""
        body = {"jsonrpc": "2.0", "id": 0, "method": "eth_call", "params": [call, "latest"]}
        answer = self._post(body)
        return str(answer["error"].get("data", "0x")) if "error" in answer else None

    def _post(self, body: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
        """Send a JSON-RPC request body and return the decoded response.

        Raises:
            FatalError: the chain has ended, times out, or responds with something other than JSON.
        """
        try:
            return self._session.post(self.url, json=body, timeout=_REQUEST_SECONDS).json()
        except requests.Timeout:
            raise FatalError(
                f"the local chain at {self.url}: no answer from Anvil in {_REQUEST_SECONDS} s; "
                "the machine may be out of memory or overloaded; start it again"
            ) from None
        except requests.ConnectionError:
            raise FatalError(
                f"the local chain at {self.url}: Anvil has ended; start it again"
            ) from None
        except requests.RequestException as error:
            raise FatalError(f"the local chain at {self.url}: {error}") from None


# The system assigns free ports from 32768 on (Linux) or higher, so a port from that range may be
# taken by another process before a program binds it.
_PORTS = range(20_000, 32_000)
# Two processes that start at the same time search from distant ports.
_STRIDE = 101
# No port is returned twice: the first program may not have bound it yet.
_asked = itertools.count()


def free_port() -> int:
    """Return a free port outside the range from which the system assigns ports.

    Raises:
        FatalError: every port is in use.
    """
    first = os.getpid() * _STRIDE
    for _ in _PORTS:
        port = _PORTS[(first + next(_asked)) % len(_PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise FatalError(f"every port from {_PORTS[0]} to {_PORTS[-1]} is taken")
