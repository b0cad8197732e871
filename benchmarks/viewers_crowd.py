"""Simulates viewers of the pages until stdin is closed, then prints statistics.

Run: viewers_crowd.py URL MANY
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
# Bounds of the time between two requests of one viewer.
LEAST_SECONDS, MOST_SECONDS = 2.0, 8.0
# Maximum number of connections that are opened at the same time.
AT_ONCE = 50
_NOT_MODIFIED = b" 304 "
_SLOWEST = 0.99
_PART_BYTES = 2**16


class Viewers:
    """All viewers, and the statistics of all of them together."""

    def __init__(self, url: str, many: int) -> None:
        parts = urlsplit(url)
        self.host, self.port, self.many = str(parts.hostname), int(parts.port or 80), many
        self.chance = Random(1)  # noqa: S311 - repeatable, no secret
        self.connected = 0
        self.all_connected = asyncio.Event()
        self.opening = asyncio.Semaphore(AT_ONCE)
        self.seconds: list[float] = []
        self.unchanged = self.refused = self.events = 0

    async def listen(self) -> None:
        reader, writer = await self._send_request("/v1/events", "")
        # The response's header, and the event id at which the stream begins.
        try:
            await reader.readuntil(b"\nid: ")
        except asyncio.IncompleteReadError as error:
            status = error.partial.partition(b"\r\n")[0].decode("latin-1")
            raise ConnectionError(f"/v1/events ended with {status or 'no response'}") from error
        self._count_connected()
        # Events are counted in raw bytes, because reading lines takes more CPU time than serving.
        while part := await reader.read(_PART_BYTES):
            self.events += part.count(b"event: ")
        writer.close()

    async def read(self) -> None:
        tags: dict[str, str] = {}
        is_first = True
        while True:
            path = self.chance.choice(PATHS)
            began = time.perf_counter()
            head = await self._fetch(path, tags)
            self.seconds.append(time.perf_counter() - began)
            status = head.partition(b"\r\n")[0]
            self.unchanged += _NOT_MODIFIED in status
            self.refused += b" 2" not in status and _NOT_MODIFIED not in status
            if is_first:
                is_first = False
                self._count_connected()
                await self.all_connected.wait()
                await asyncio.sleep(self.chance.uniform(0.0, MOST_SECONDS))
                continue
            await asyncio.sleep(self.chance.uniform(LEAST_SECONDS, MOST_SECONDS))

    async def _fetch(self, path: str, tags: dict[str, str]) -> bytes:
        tag = f"if-none-match: {tags[path]}\r\n" if path in tags else ""
        reader, writer = await self._send_request(path, tag)
        response = await reader.read()
        writer.close()
        head = response.partition(b"\r\n\r\n")[0]
        for line in head.decode("latin-1").split("\r\n"):
            name, _, value = line.partition(": ")
            if name.lower() == "etag":
                tags[path] = value
        return head

    async def _send_request(
        self, path: str, headers: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with self.opening:
            reader, writer = await asyncio.open_connection(self.host, self.port)
        head = f"host: {self.host}\r\naccept-encoding: gzip\r\n{headers}"
        writer.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
        await writer.drain()
        return reader, writer

    def _count_connected(self) -> None:
        self.connected += 1
        if self.connected == self.many:
            self.all_connected.set()

    def reset_statistics(self) -> None:
        """Reset the statistics."""
        self.seconds, self.unchanged, self.refused, self.events = [], 0, 0, 0

    def collect_statistics(self) -> dict[str, object]:
        times = sorted(self.seconds) or [0.0]
        return {
            "answers": len(self.seconds),
            "unchanged": self.unchanged,
            "refused": self.refused,
            "events received": self.events,
            "median ms": round(1000 * times[len(times) // 2], 1),
            "99 % ms": round(1000 * times[int(_SLOWEST * (len(times) - 1))], 1),
        }


async def main(url: str, many: int) -> None:
    viewers = Viewers(url, many)
    half = many // 2
    work = [asyncio.create_task(viewers.listen()) for _ in range(half)]
    work += [asyncio.create_task(viewers.read()) for _ in range(many - half)]
    stdin_closed = asyncio.Event()
    # Not a thread that reads stdin: Python would wait for it before the program can end.
    asyncio.get_running_loop().add_reader(sys.stdin, stdin_closed.set)
    all_connected = asyncio.create_task(viewers.all_connected.wait())
    # The failure of one viewer ends the program.
    done, _ = await asyncio.wait([*work, all_connected], return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    viewers.reset_statistics()
    print("all connected", flush=True)
    stop_request = asyncio.create_task(stdin_closed.wait())
    await asyncio.wait([*work, stop_request], return_when=asyncio.FIRST_COMPLETED)
    for viewer in work:
        viewer.cancel()
    failed = [viewer for viewer in await asyncio.gather(*work, return_exceptions=True)
              if isinstance(viewer, OSError)]  # fmt: skip
    print(json.dumps({**viewers.collect_statistics(), "cut off": len(failed)}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
