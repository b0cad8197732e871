"""The static files of the pages, served under the digest of their bytes."""

from functools import cache
from types import MappingProxyType

from fastapi.responses import Response

from oracle.daemon.web.pages.page_frame import STATIC, get_asset_url

_MEDIA_TYPE_BY_SUFFIX = MappingProxyType({
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
})  # fmt: skip
_CACHE_FOREVER = "public, max-age=31536000, immutable"


@cache
def _list_file_names() -> frozenset[str]:
    """Return the files that are served; licences and lists are not."""
    paths = (path for path in STATIC.rglob("*") if path.suffix in _MEDIA_TYPE_BY_SUFFIX)
    return frozenset(path.relative_to(STATIC).as_posix() for path in paths)


def get_file_response(digest: str, name: str) -> Response | None:
    """Return the response with a file, or None if no file has this name and digest."""
    if name not in _list_file_names() or get_asset_url(name) != f"/static/{digest}/{name}":
        return None
    path = STATIC / name
    return Response(
        path.read_bytes(),
        media_type=_MEDIA_TYPE_BY_SUFFIX[path.suffix],
        headers={"cache-control": _CACHE_FOREVER},
    )
