"""A client that sends requests to a gateway's service over a few connections.

On each connection a request follows the response to the last one. gateway.py compares two services
with this client.
"""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import requests
from typing_extensions import override

ROOT = Path(__file__).resolve().parents[1]
NODES = [f"{number:040x}" for number in range(24)]
CHAIN, TOKEN = "0021", "the-token-of-a-benchmark"
TOKEN_VARIABLE = "QOS_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable
CONNECTIONS = 8


@contextmanager
def serving(command: list[str], port: int) -> Iterator[int]:
    environment = {TOKEN_VARIABLE: TOKEN, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 120
            while not answers(port):
                assert time.monotonic() < until
                assert process.poll() is None
                time.sleep(0.05)
            yield process.pid
        finally:
            process.terminate()


def processor_seconds(pid: int) -> float:
    """Return the CPU seconds that all threads of a process have used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def answers(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/healthz", timeout=5).ok
    except requests.RequestException:
        return False


def request(path: str, body: object) -> bytes:
    sent = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {TOKEN}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
    return head.encode() + sent


class Client(asyncio.Protocol):
    """Sends the next request when the last response is complete, and records its duration."""

    def __init__(self, following: Callable[[], bytes], took: list[float]) -> None:
        self.following, self.took = following, took
        self.left = b""
        self.is_over = False
        self.done = asyncio.get_running_loop().create_future()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.begun = time.perf_counter()
        self.transport.write(self.following())

    @override
    def data_received(self, data: bytes) -> None:
        self.left += data
        head, separator, body = self.left.partition(b"\r\n\r\n")
        if not separator:
            return
        assert head.startswith(b"HTTP/1.1 200"), self.left
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if len(body) < int(length):
            return
        self.took.append(1000 * (time.perf_counter() - self.begun))
        self.left = b""
        if self.is_over:
            self.transport.close()
            self.done.set_result(None)
        else:
            self.send()


async def measure_requests(port: int, seconds: float) -> tuple[float, list[float]]:
    """Return the requests per second, and the milliseconds of each request in ascending order."""
    select = request("/v1/select", {"chain": CHAIN, "session": "s", "candidates": NODES})
    chance = Random(2)  # noqa: S311 - repeatable, no secret

    def outcomes() -> bytes:
        now = time.clock_gettime_ns(time.CLOCK_REALTIME) // 10**6
        rows = [
            {"node": chance.choice(NODES), "chain": CHAIN, "session": "s", "t_ms": now,
             "latency_ms": round(chance.uniform(50, 350), 1), "ok": True, "kind": "ok"}
            for _ in range(100)
        ]  # fmt: skip
        return request("/v1/outcomes", {"outcomes": rows})

    took: list[float] = []
    loop = asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(lambda: Client(lambda: select, took), "127.0.0.1", port))[1]
        for _ in range(CONNECTIONS)
    ]
    begun = time.perf_counter()
    while time.perf_counter() < begun + seconds:
        # Every tenth of a second, a separate connection sends a batch of outcomes.
        _, teller = await loop.create_connection(lambda: Client(outcomes, []), "127.0.0.1", port)
        teller.is_over = True
        await teller.done
        await asyncio.sleep(0.1)
    spent = time.perf_counter() - begun
    many = len(took)
    for client in clients:
        client.is_over = True
    await asyncio.gather(*(client.done for client in clients))
    return many / spent, sorted(took)


class Served(NamedTuple):
    """The measurements of one service.

    `rate`: requests per second. `alone`: requests per second of the service's CPU time. `took`:
    the milliseconds of each request, in ascending order.
    """

    rate: float
    alone: float
    took: list[float]

    @property
    def p99(self) -> float:
        return self.took[len(self.took) * 99 // 100]


def served(command: list[str], port: int, seconds: float) -> Served:
    with serving(command, port) as pid:
        before = processor_seconds(pid)
        rate, took = asyncio.run(measure_requests(port, seconds))
        return Served(rate, len(took) / (processor_seconds(pid) - before), took)
