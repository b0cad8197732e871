"""Simulates viewers of the pages until stdin is closed, then prints statistics.

Run: viewers_crowd.py URL MANY
Half of the viewers listen to /v1/events. The others request a page or JSON, wait for a few seconds
as a reader does, and request again with the ETag of their last response, so that an unchanged page
is not sent again. A line is printed once all viewers have had their first response.
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
        self.there = 0
        self.all_there = asyncio.Event()
        self.opening = asyncio.Semaphore(AT_ONCE)
        self.seconds: list[float] = []
        self.unchanged = self.refused = self.events = 0

    async def listen(self) -> None:
        reader, writer = await self._asked("/v1/events", "")
        # The response's header, and the event id at which the stream begins.
        await reader.readuntil(b"\nid: ")
        self._came()
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
            head = await self._answer(path, tags)
            self.seconds.append(time.perf_counter() - began)
            status = head.partition(b"\r\n")[0]
            self.unchanged += _NOT_MODIFIED in status
            self.refused += b" 2" not in status and _NOT_MODIFIED not in status
            if is_first:
                is_first = False
                self._came()
                await self.all_there.wait()
                await asyncio.sleep(self.chance.uniform(0.0, MOST_SECONDS))
                continue
            await asyncio.sleep(self.chance.uniform(LEAST_SECONDS, MOST_SECONDS))

    async def _answer(self, path: str, tags: dict[str, str]) -> bytes:
        tag = f"if-none-match: {tags[path]}\r\n" if path in tags else ""
        reader, writer = await self._asked(path, tag)
        answer = await reader.read()
        writer.close()
        head = answer.partition(b"\r\n\r\n")[0]
        for line in head.decode("latin-1").split("\r\n"):
            name, _, value = line.partition(": ")
            if name.lower() == "etag":
                tags[path] = value
        return head

    async def _asked(
        self, path: str, more: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with self.opening:
            reader, writer = await asyncio.open_connection(self.host, self.port)
        head = f"host: {self.host}\r\naccept-encoding: gzip\r\n{more}"
        writer.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
        await writer.drain()
        return reader, writer

    def _came(self) -> None:
        self.there += 1
        if self.there == self.many:
            self.all_there.set()

    def forget(self) -> None:
        """Reset the statistics."""
        self.seconds, self.unchanged, self.refused, self.events = [], 0, 0, 0

    def seen(self) -> dict[str, object]:
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
    stop_request = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    there = asyncio.create_task(viewers.all_there.wait())
    # The failure of one viewer ends the program.
    done, _ = await asyncio.wait([*work, there], return_when=asyncio.FIRST_COMPLETED)
    for viewer in done:
        viewer.result()
    viewers.forget()
    print("all connected", flush=True)
    await asyncio.wait([*work, stop_request], return_when=asyncio.FIRST_COMPLETED)
    for viewer in work:
        viewer.cancel()
    failed = [viewer for viewer in await asyncio.gather(*work, return_exceptions=True)
              if isinstance(viewer, OSError)]  # fmt: skip
    print(json.dumps({**viewers.seen(), "cut off": len(failed)}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
