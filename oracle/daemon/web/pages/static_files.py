"""The static files of the pages, served under the digest of their bytes."""

from functools import cache
from types import MappingProxyType

from fastapi.responses import Response

from oracle.daemon.web.pages.page_frame import STATIC, asset

_KINDS = MappingProxyType({
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
})  # fmt: skip
_FOR_EVER = "public, max-age=31536000, immutable"


@cache
def _names() -> frozenset[str]:
    """Return the files that are served; licences and lists are not."""
    found = (path for path in STATIC.rglob("*") if path.suffix in _KINDS)
    return frozenset(path.relative_to(STATIC).as_posix() for path in found)


def answer(digest: str, name: str) -> Response | None:
    """Return the response with a file, or None if no file has this name and digest."""
    if name not in _names() or asset(name) != f"/static/{digest}/{name}":
        return None
    path = STATIC / name
    return Response(
        path.read_bytes(),
        media_type=_KINDS[path.suffix],
        headers={"cache-control": _FOR_EVER},
    )
