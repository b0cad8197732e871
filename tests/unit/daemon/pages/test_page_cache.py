"""What is kept of pages: never older than what moved, never more than there is room for."""

from oracle.daemon.web.pages.page_cache import PageCache


def test_what_is_kept_goes_when_anything_moves():
    cache = PageCache()
    cache.put("1", "/", b"old")
    assert cache.get("1", "/") == b"old"
    assert cache.get("2", "/") is None
    cache.put("2", "/", b"new")
    assert (cache.get("1", "/"), cache.get("2", "/")) == (None, b"new")


def test_what_was_asked_for_longest_ago_makes_room():
    cache = PageCache(most_bytes=6)
    for name in "abc":
        cache.put("1", name, b"xx")
    cache.get("1", "a")
    cache.put("1", "d", b"xx")
    assert [cache.get("1", name) for name in "abcd"] == [b"xx", None, b"xx", b"xx"]
