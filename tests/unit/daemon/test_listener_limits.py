"""Most file descriptors of the process are reserved for endpoints and the database."""

import resource

import pytest

from oracle.daemon.config.listener_section import WebSection
from oracle.daemon.web.listener import get_max_concurrent_requests, get_max_pending_connections


@pytest.mark.parametrize("allowed", [32, 64, 256, 1024, 65_536, resource.RLIM_INFINITY])
def test_two_listeners_use_at_most_half_of_the_file_descriptors(
    allowed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, allowed))
    section = WebSection(max_connections=1024)
    answer_slots = get_max_concurrent_requests(section)
    waiting_slots = get_max_pending_connections(section)
    held = answer_slots + waiting_slots
    assert held <= 1024
    assert answer_slots >= 4
    assert waiting_slots >= 4
    assert allowed == resource.RLIM_INFINITY or 2 * held <= allowed / 2
