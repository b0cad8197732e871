"""Pages that were rendered, kept as long as nothing moved: one rendering for whoever asks."""

import threading
import zlib
from collections import OrderedDict

from oracle.daemon.web.played_act import PlayedAct
from oracle.queries.api.answers import AsOf

# What a page says of its age is never older than this.
_LAG_STEP_SECONDS = 30
_MOST_BYTES = 16 * 2**20


def tag_of(as_of: AsOf, act: PlayedAct | None) -> str:
    """Return the weak entity tag of everything that is shown at a cursor, while this is played."""
    played = 0 if act is None else zlib.crc32(act.title.encode())
    age = as_of.lag_seconds // _LAG_STEP_SECONDS
    return f'W/"{as_of.epoch}-{as_of.head}-{age}-{played}"'


class PageCache:
    """Bytes by question, under the tag that they were made at; any thread may ask."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._tag = ""
        self._bytes = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def get(self, tag: str, question: str) -> bytes | None:
        """Return what is kept for a question; None: nothing, or something has moved since."""
        with self._lock:
            known = self._kept.get(question) if tag == self._tag else None
            if known is not None:
                self._kept.move_to_end(question)
            return known

    def put(self, tag: str, question: str, body: bytes) -> None:
        """Keep a page, and let go of all that was made under another tag."""
        with self._lock:
            self._keep(tag, question, body)

    def _keep(self, tag: str, question: str, body: bytes) -> None:
        if tag != self._tag:
            self._tag, self._bytes = tag, 0
            self._kept.clear()
        self._bytes += len(body) - len(self._kept.pop(question, b""))
        self._kept[question] = body
        while self._bytes > self._most_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest)
