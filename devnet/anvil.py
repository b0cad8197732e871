"""A local EVM chain that the demo drives: it mines when told, at the times that it is told.

Anvil leaves nothing on the disk, and keeps enough history for every reorg and old state we ask
for.
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
# More blocks than a demo makes: what is pruned cannot be read or reorganised any more. A chain
# that runs for days would fill the memory with more: every kept state costs half a megabyte.
_KEPT_BLOCKS = 2_000
_REQUEST_SECONDS = 120
# Anvil ends at once when asked to, unless it hangs.
_END_SECONDS = 10


@contextmanager
def anvil(*, port: int, accounts: int, start_time: int) -> Iterator[str]:
    """Run Anvil and give its URL; `port` 0 takes any free one, `start_time` is block 0's.

    Raises:
        InputError: the port is in use, or Anvil cannot be installed.
    """
    with tempfile.TemporaryDirectory(prefix="qos-oracle-anvil-") as cache:
        command = [
            *(str(anvil_binary()), "--host", "127.0.0.1", "--port", str(port)),
            *("--accounts", str(accounts), "--chain-id", str(CHAIN_ID)),
            *("--timestamp", str(start_time), "--no-mining", "--order", "fifo"),
            *("--prune-history", str(_KEPT_BLOCKS), "--cache-path", cache),
            # Two blocks under the head are final in its own words; 64 by default.
            *("--slots-in-an-epoch", "1"),
        ]
        with subprocess.Popen(  # noqa: S603 - the binary that we found ourselves
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Ctrl-C is for who runs the chain, who ends it in order.
            process_group=0,
        ) as running:
            # It writes a line for every request; a pipe that nobody empties would stop it.
            draining = Thread(target=_drain, args=(running,), daemon=True)
            try:
                url = _url(running, port)
                draining.start()
                yield url
            finally:
                _end(running)
                # The pipe is closed under nobody who still reads it.
                if draining.ident is not None:
                    draining.join()


def _url(running: "subprocess.Popen[str]", port: int) -> str:
    """Wait for the line that says where it listens."""
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
    """JSON-RPC to Anvil, many calls in one request; the accounts are unlocked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()

    def close(self) -> None:
        self._session.close()

    def ask(self, method: str, *params: Any) -> Any:  # noqa: ANN401 - JSON has no narrower type
        """Return the answer to one call."""
        return self.ask_all([(method, *params)])[0]

    def ask_all(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the answers in the order of the calls.

        Raises:
            FatalError: the chain refuses one; the line names the method and the reason.
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
        """Put the transactions, in this order, into one block at `time`; return their hashes.

        What others have sent in the meantime gets in as well.
        """
        calls: list[tuple[Any, ...]] = [("eth_sendTransaction", sent) for sent in transactions]
        block = [("evm_setNextBlockTimestamp", time), ("evm_mine",)]
        return [str(sent) for sent in self.ask_all([*calls, *block])[: len(calls)]]

    def mined(self, time: int, transactions: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
        """As `mine`, with transactions that have to work; return their receipts.

        Raises:
            FatalError: one failed.
        """
        sent = self.mine(time, transactions)
        asked = [("eth_getTransactionReceipt", one) for one in sent]
        # There is no empty batch.
        receipts = self.ask_all(asked) if asked else []
        for one, receipt in zip(sent, receipts, strict=True):
            if receipt is None or receipt["status"] != "0x1":
                raise FatalError(f"the local network's own transaction {one} failed: a bug")
        return receipts

    def refusal(self, call: dict[str, str]) -> str | None:
        """Return the output with which a call is reverted, None where it goes through."""
        body = {"jsonrpc": "2.0", "id": 0, "method": "eth_call", "params": [call, "latest"]}
        answer = self._post(body)
        return str(answer["error"].get("data", "0x")) if "error" in answer else None

    def _post(self, body: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
        """Return the decoded response.

        Raises:
            FatalError: the chain does not answer in time, has ended, or answers no JSON.
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


# Linux gives out those from 32768 on, and other systems higher ones, to whoever takes any: one of
# them may be another's before a program has started.
_PORTS = range(20_000, 32_000)
# Two that start at once are far apart.
_STRIDE = 101
# None is given twice: the first program may not listen yet.
_asked = itertools.count()


def free_port() -> int:
    """Return a port of this machine that nobody listens on, and that nobody is given by chance.

    Raises:
        FatalError: all of them are taken.
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
