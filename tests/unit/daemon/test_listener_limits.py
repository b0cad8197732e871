"""Of the descriptors that the process may open, endpoints and the database keep most."""

import resource

import pytest

from oracle.daemon.web.listener import ListenerLimits


@pytest.mark.parametrize("allowed", [32, 64, 256, 1024, 65_536, resource.RLIM_INFINITY])
def test_two_listeners_use_at_most_half_of_the_file_descriptors(
    allowed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, allowed))
    limits = ListenerLimits(connections=1024)
    held = limits.answer_slots + limits.waiting_slots
    assert held <= 1024
    assert limits.answer_slots >= 4
    assert limits.waiting_slots >= 4
    assert allowed == resource.RLIM_INFINITY or 2 * held <= allowed / 2
