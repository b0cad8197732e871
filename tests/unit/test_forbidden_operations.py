"""The operations that unit tests must not use; threads of other tests may still use them."""

import socket
import threading
from collections.abc import Iterator
from queue import Queue

import pytest


@pytest.fixture(scope="module")
def left_behind() -> "Iterator[tuple[Queue[int | None], Queue[str]]]":
    """Start a thread before the test, which connects to the ports that it is given."""
    ports: Queue[int | None] = Queue()
    outcomes: Queue[str] = Queue()

    def connect() -> None:
        while (port := ports.get()) is not None:
            with socket.socket() as line:
                outcomes.put(type(_error_of(line, port)).__name__)

    thread = threading.Thread(target=connect)
    thread.start()
    yield ports, outcomes
    ports.put(None)
    thread.join()


def _error_of(line: socket.socket, port: int) -> BaseException | None:
    try:
        line.connect(("127.0.0.1", port))
    except BaseException as error:  # noqa: BLE001  # the test says which
        return error
    return None


def test_opening_socket_in_unit_test_raises_assertion_error():
    with socket.socket() as line, pytest.raises(AssertionError, match="may not open a socket"):
        line.connect(("127.0.0.1", 1))


def test_thread_started_before_test_can_connect(
    left_behind: "tuple[Queue[int | None], Queue[str]]",
):
    ports, outcomes = left_behind
    ports.put(1)
    assert outcomes.get(timeout=30) == "ConnectionRefusedError"


def test_thread_started_by_test_cannot_connect():
    error_names: Queue[str] = Queue()
    with socket.socket() as line:
        thread = threading.Thread(
            target=lambda: error_names.put(type(_error_of(line, 1)).__name__)
        )
        thread.start()
        thread.join()
    assert error_names.get_nowait() == "AssertionError"
