"""Reads the body of an HTTP answer, in bounded space and time."""

import time

import requests
from urllib3 import BaseHTTPResponse

_PART = 256 * 1024


def body_of(raw: BaseHTTPResponse, most: int, until: float) -> bytes:
    """Return the unpacked body, or its beginning where it has more than `most` bytes.

    `until` is a time of `time.monotonic`. The library's own limit is that of one part: who sends
    a byte now and then would keep us for ever.

    Raises:
        requests.ReadTimeout: it is not whole by then.
    """
    parts: list[bytes] = []
    length = 0
    while length <= most and (part := raw.read1(_PART, decode_content=True)):
        parts.append(part)
        length += len(part)
        if time.monotonic() > until:
            raise requests.ReadTimeout
    return b"".join(parts)
