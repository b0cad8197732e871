"""The description of an endpoint: its state, the reason, and the duration."""

import pytest

from oracle.rpc.endpoints.endpoint import HEALTHY_SECONDS, EndpointStatus
from oracle.rpc.rpc_errors import ErrorKind, RpcError


def record_failures(status: EndpointStatus, kind: ErrorKind, message: str, *times: float) -> None:
    for now in times:
        status.record_failure(RpcError("http://one.example", kind, message), now)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (ErrorKind.SLOW, "no answer in time"),
        (ErrorKind.THROTTLED, "HTTP 429"),
        (ErrorKind.BEHIND, "at block 7"),
    ],
)
def test_failing_endpoint_shows_reason_and_duration(kind: ErrorKind, words: str):
    status = EndpointStatus()
    record_failures(status, kind, words, 100.0, 1_600.0, 3_690.0)

    expected = f"failing for 3600 s: {kind}: {words}; last request 10 s ago"
    assert status.describe(3_700.0) == expected


def test_endpoint_with_pruned_history_is_not_failing():
    status = EndpointStatus()
    record_failures(status, ErrorKind.PRUNED, "no history", 100.0)

    assert status.describe(100.0) == "ok"


def test_recovered_endpoint_is_deprioritised_until_it_is_stable():
    status = EndpointStatus()
    record_failures(status, ErrorKind.UNREACHABLE, "no connection", 100.0)
    status.mark_recovered()

    descriptions = [status.describe(100.0 + seconds) for seconds in (1.0, HEALTHY_SECONDS)]

    assert descriptions == ["deprioritised", "ok"]


def test_failure_after_a_success_starts_a_new_period():
    status = EndpointStatus()
    record_failures(status, ErrorKind.THROTTLED, "HTTP 429", 100.0)
    status.record_success()
    assert status.describe(150.0) == "ok"

    record_failures(status, ErrorKind.THROTTLED, "HTTP 429", 200.0)

    assert status.describe(205.0).startswith("failing for 5 s: ")
