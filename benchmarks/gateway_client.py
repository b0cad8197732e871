"""A client that sends requests to a gateway's service over a few connections.

Each connection sends its next request when the response to the last one is complete. gateway.py
measures two services with this client.
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
def run_service(command: list[str], port: int) -> Iterator[int]:
    environment = {TOKEN_VARIABLE: TOKEN, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 120
            while not is_ready(port):
                assert time.monotonic() < deadline
                assert process.poll() is None
                time.sleep(0.05)
            yield process.pid
        finally:
            process.terminate()


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that all threads of a process have used so far."""
    stat_fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(stat_fields[11]) + int(stat_fields[12])) / os.sysconf("SC_CLK_TCK")


def is_ready(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/healthz", timeout=5).ok
    except requests.RequestException:
        return False


def build_request(path: str, body: object) -> bytes:
    body_bytes = json.dumps(body).encode()
    request_head = f"POST {path} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {TOKEN}\r\n"
    request_head += f"Content-Type: application/json\r\nContent-Length: {len(body_bytes)}\r\n\r\n"
    return request_head.encode() + body_bytes


class RequestConnection(asyncio.Protocol):
    """Sends the next request when the last response is complete, and records its latency."""

    def __init__(self, build_next_request: Callable[[], bytes], latencies_ms: list[float]) -> None:
        self.build_next_request, self.latencies_ms = build_next_request, latencies_ms
        self.buffer = b""
        self.is_last = False
        self.done = asyncio.get_running_loop().create_future()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.send_next_request()

    def send_next_request(self) -> None:
        self.start = time.perf_counter()
        self.transport.write(self.build_next_request())

    @override
    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        assert head.startswith(b"HTTP/1.1 200"), self.buffer
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if len(body) < int(length):
            return
        self.latencies_ms.append(1000 * (time.perf_counter() - self.start))
        self.buffer = b""
        if self.is_last:
            self.transport.close()
            self.done.set_result(None)
        else:
            self.send_next_request()


async def measure_requests(port: int, seconds: float) -> tuple[float, list[float]]:
    """Return the requests per second, and the milliseconds of each request in ascending order."""
    select = build_request("/v1/select", {"chain": CHAIN, "session": "s", "candidates": NODES})
    random = Random(2)  # noqa: S311 - repeatable, no secret

    def build_outcomes_request() -> bytes:
        now = time.clock_gettime_ns(time.CLOCK_REALTIME) // 10**6
        rows = [
            {"node": random.choice(NODES), "chain": CHAIN, "session": "s", "t_ms": now,
             "latency_ms": round(random.uniform(50, 350), 1), "ok": True, "kind": "ok"}
            for _ in range(100)
        ]  # fmt: skip
        return build_request("/v1/outcomes", {"outcomes": rows})

    latencies_ms: list[float] = []
    loop = asyncio.get_running_loop()
    clients = [
        (
            await loop.create_connection(
                lambda: RequestConnection(lambda: select, latencies_ms), "127.0.0.1", port
            )
        )[1]
        for _ in range(CONNECTIONS)
    ]
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        # A separate connection sends a batch of outcomes every tenth of a second.
        _, reporter = await loop.create_connection(
            lambda: RequestConnection(build_outcomes_request, []), "127.0.0.1", port
        )
        reporter.is_last = True
        await reporter.done
        await asyncio.sleep(0.1)
    elapsed_seconds = time.perf_counter() - start
    request_count = len(latencies_ms)
    for client in clients:
        client.is_last = True
    await asyncio.gather(*(client.done for client in clients))
    return request_count / elapsed_seconds, sorted(latencies_ms)


class ServiceFigures(NamedTuple):
    """The measurements of one service.

    `requests_per_cpu_second` relates to the service's CPU time. `latencies_ms` is in ascending
    order.
    """

    requests_per_second: float
    requests_per_cpu_second: float
    latencies_ms: list[float]

    @property
    def p99_ms(self) -> float:
        return self.latencies_ms[len(self.latencies_ms) * 99 // 100]


def measure_service(command: list[str], port: int, seconds: float) -> ServiceFigures:
    with run_service(command, port) as pid:
        cpu_seconds_before = read_cpu_seconds(pid)
        requests_per_second, latencies_ms = asyncio.run(measure_requests(port, seconds))
        return ServiceFigures(
            requests_per_second,
            len(latencies_ms) / (read_cpu_seconds(pid) - cpu_seconds_before),
            latencies_ms,
        )
