"""Simulates viewers of the pages until stdin is closed, then prints statistics.

Run: viewers_crowd.py URL VIEWERS
Half of the viewers listen to /v1/events. The others request a page or JSON, wait for a few seconds
as a reader does, and request again with the ETag of their last response, so that an unchanged page
is not sent again. A line is printed once all viewers have had their first response. If a viewer
fails before that, the program ends with its error.
"""

import asyncio
import json
import sys
import time
from random import Random
from urllib.parse import urlsplit

PATHS = ("/", "/nodes", "/rounds", "/health", "/v1/network", "/v1/nodes", "/v1/status")
# Shortest and longest time between two requests of a viewer.
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 2.0, 8.0
# Maximum number of connections that are being opened at the same time.
MAX_OPENING_CONNECTIONS = 50
_NOT_MODIFIED = b" 304 "
_P99 = 0.99
_CHUNK_BYTES = 2**16


class Viewers:
    """All viewers, and the statistics of all of them together."""

    def __init__(self, url: str, viewer_count: int) -> None:
        url_parts = urlsplit(url)
        self.host = str(url_parts.hostname)
        self.port = int(url_parts.port or 80)
        self.viewer_count = viewer_count
        self.random = Random(1)  # noqa: S311 - repeatable, no secret
        self.connected_count = 0
        self.all_connected = asyncio.Event()
        self.opening_slots = asyncio.Semaphore(MAX_OPENING_CONNECTIONS)
        self.response_seconds: list[float] = []
        self.unchanged_count = self.refused_count = self.event_count = 0

    async def listen_to_events(self) -> None:
        reader, writer = await self._send_request("/v1/events", "")
        # Skip the response's header, up to the event id at which the stream begins.
        try:
            await reader.readuntil(b"\nid: ")
        except asyncio.IncompleteReadError as error:
            status = error.partial.partition(b"\r\n")[0].decode("latin-1")
            raise ConnectionError(f"/v1/events ended with {status or 'no response'}") from error
        self._count_connected()
        # Count events in the raw bytes. Splitting them into lines would take more CPU time than
        # serving them.
        while chunk := await reader.read(_CHUNK_BYTES):
            self.event_count += chunk.count(b"event: ")
        writer.close()

    async def read_pages(self) -> None:
        etag_by_path: dict[str, str] = {}
        is_first = True
        while True:
            path = self.random.choice(PATHS)
            start = time.perf_counter()
            head = await self._fetch_head(path, etag_by_path)
            self.response_seconds.append(time.perf_counter() - start)
            status = head.partition(b"\r\n")[0]
            self.unchanged_count += _NOT_MODIFIED in status
            self.refused_count += b" 2" not in status and _NOT_MODIFIED not in status
            if is_first:
                is_first = False
                self._count_connected()
                await self.all_connected.wait()
                await asyncio.sleep(self.random.uniform(0.0, MAX_PAUSE_SECONDS))
                continue
            await asyncio.sleep(self.random.uniform(MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS))

    async def _fetch_head(self, path: str, etag_by_path: dict[str, str]) -> bytes:
        etag_header = f"if-none-match: {etag_by_path[path]}\r\n" if path in etag_by_path else ""
        reader, writer = await self._send_request(path, f"connection: close\r\n{etag_header}")
        response = await reader.read()
        writer.close()
        response_head = response.partition(b"\r\n\r\n")[0]
        for line in response_head.decode("latin-1").split("\r\n"):
            name, _, value = line.partition(": ")
            if name.lower() == "etag":
                etag_by_path[path] = value
        return response_head

    async def _send_request(
        self, path: str, headers: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with self.opening_slots:
            reader, writer = await asyncio.open_connection(self.host, self.port)
        request_head = f"host: {self.host}\r\naccept-encoding: gzip\r\n{headers}"
        writer.write(f"GET {path} HTTP/1.1\r\n{request_head}\r\n".encode())
        await writer.drain()
        return reader, writer

    def _count_connected(self) -> None:
        self.connected_count += 1
        if self.connected_count == self.viewer_count:
            self.all_connected.set()

    def reset_statistics(self) -> None:
        self.response_seconds = []
        self.unchanged_count = 0
        self.refused_count = 0
        self.event_count = 0

    def collect_statistics(self) -> dict[str, object]:
        sorted_seconds = sorted(self.response_seconds) or [0.0]
        return {
            "responses": len(self.response_seconds),
            "unchanged": self.unchanged_count,
            "refused": self.refused_count,
            "events received": self.event_count,
            "median ms": round(1000 * sorted_seconds[len(sorted_seconds) // 2], 1),
            "99 % ms": round(1000 * sorted_seconds[int(_P99 * (len(sorted_seconds) - 1))], 1),
        }


async def main(url: str, viewer_count: int) -> None:
    viewers = Viewers(url, viewer_count)
    listener_count = viewer_count // 2
    viewer_tasks = [asyncio.create_task(viewers.listen_to_events()) for _ in range(listener_count)]
    viewer_tasks += [
        asyncio.create_task(viewers.read_pages()) for _ in range(viewer_count - listener_count)
    ]
    stdin_closed = asyncio.Event()
    # Do not use a thread, because Python would wait for it at the end of the program.
    asyncio.get_running_loop().add_reader(sys.stdin, stdin_closed.set)
    all_connected = asyncio.create_task(viewers.all_connected.wait())
    # End the program as soon as one viewer fails.
    finished_tasks, _ = await asyncio.wait(
        [*viewer_tasks, all_connected], return_when=asyncio.FIRST_COMPLETED
    )
    for finished_task in finished_tasks:
        finished_task.result()
    viewers.reset_statistics()
    print("all connected", flush=True)
    stop_request = asyncio.create_task(stdin_closed.wait())
    await asyncio.wait([*viewer_tasks, stop_request], return_when=asyncio.FIRST_COMPLETED)
    for viewer_task in viewer_tasks:
        viewer_task.cancel()
    results = await asyncio.gather(*viewer_tasks, return_exceptions=True)
    failed_count = sum(isinstance(result, OSError) for result in results)
    print(json.dumps({**viewers.collect_statistics(), "cut off": failed_count}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
