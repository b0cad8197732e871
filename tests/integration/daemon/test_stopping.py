"""SIGTERM is handled wherever it arrives, and ends a command in time."""

import signal
import threading
import weakref

import pytest

from oracle.daemon import stopping
from oracle.daemon.stopping import (
    SIGNAL_EXIT_BASE,
    StopSignal,
    listen_for_signals,
    run_until_signalled,
)
from oracle.rpc.background import run_in_background
from oracle.store.database import Store
from tests.support.cli import churning
from tests.support.cli.daemon import PATIENCE_SECONDS, start_daemon

PROGRAM = ("-m", "tests.support.cli.churning")


def record_forced_exits(stop: StopSignal) -> tuple[threading.Event, list[int]]:
    """Record when the process was cut off, and with which exit code."""
    was_cut = threading.Event()
    codes = list[int]()

    def note(code: int) -> None:
        codes.append(code)
        was_cut.set()

    with listen_for_signals(stop, (signal.SIGTERM,), note):
        signal.raise_signal(signal.SIGTERM)
        assert stop.event.wait(PATIENCE_SECONDS)
        if stopping.STOP_SECONDS > 1:
            signal.raise_signal(signal.SIGTERM)
        assert was_cut.wait(PATIENCE_SECONDS)
    return was_cut, codes


def test_signal_raised_in_weakref_callback_is_received():
    for _ in range(100):
        stop = StopSignal()
        referent = churning.Referent()
        with listen_for_signals(stop, (signal.SIGTERM,)):
            reference = weakref.ref(referent, lambda _: signal.raise_signal(signal.SIGTERM))
            del referent
            assert reference() is None
            assert stop.event.wait(PATIENCE_SECONDS)
        assert stop.reason == "SIGTERM"


def test_signal_delivered_to_another_thread_is_received():
    stop = StopSignal()

    def work() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        # The main thread sleeps; the signal does not wake it.
        stop.event.wait(PATIENCE_SECONDS)

    with listen_for_signals(stop, (signal.SIGTERM,)):
        run_in_background(work, "work").result(2 * PATIENCE_SECONDS)
    assert stop.reason == "SIGTERM"


def test_unrelated_signal_reaches_its_own_handler():
    stop = StopSignal()
    received_signals = list[int]()
    before = signal.signal(signal.SIGUSR1, lambda number, _: received_signals.append(number))
    try:
        with listen_for_signals(stop, (signal.SIGTERM,)):
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (received_signals, stop.reason) == ([signal.SIGUSR1], None)


def test_second_signal_kills_the_process_immediately(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stopping, "STOP_SECONDS", 3600)
    assert record_forced_exits(StopSignal())[1] == [SIGNAL_EXIT_BASE + signal.SIGTERM]


def test_work_exceeding_stop_timeout_is_killed(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(stopping, "STOP_SECONDS", 0.01)
    assert record_forced_exits(StopSignal())[1] == [SIGNAL_EXIT_BASE + signal.SIGTERM]


def test_work_finished_within_stop_timeout_is_not_killed():
    codes = list[int]()
    stop = StopSignal()
    with listen_for_signals(stop, (signal.SIGTERM,), codes.append):
        signal.raise_signal(signal.SIGTERM)
        assert stop.event.wait(PATIENCE_SECONDS)
    assert codes == []


def test_repeated_signals_do_not_kill_if_forced_exit_is_disabled():
    stop = StopSignal()
    with listen_for_signals(stop, (signal.SIGTERM,)):
        for _ in range(10):
            signal.raise_signal(signal.SIGTERM)
        assert stop.event.wait(PATIENCE_SECONDS)
    assert stop.signal_number == signal.SIGTERM


def test_previous_signal_handlers_are_restored():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    run_until_signalled(lambda _stop: None)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_exception_raised_by_work_propagates():
    def work(_stop: StopSignal) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_until_signalled(work)


def test_stop_event_set_by_signal_cannot_be_cleared():
    stop = StopSignal()
    stop.event.set()
    stop.clear_stop_event()
    assert not stop.event.is_set()
    stop.record_signal(signal.SIGTERM)
    stop.clear_stop_event()
    assert stop.event.is_set()


@pytest.mark.evm
@pytest.mark.slow
@pytest.mark.parametrize(
    "collection", [20, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 5, 60, 100, 140))]
)
def test_sigterm_during_garbage_collection_stops_run(
    config, settings, monkeypatch: pytest.MonkeyPatch, collection: int
):
    monkeypatch.setenv(churning.WHEN, str(collection))
    with start_daemon(config, "--once", program=PROGRAM) as running:
        code = running.process.wait(PATIENCE_SECONDS)
        log_text = running.log.read_text("utf-8")
    assert code == SIGNAL_EXIT_BASE + signal.SIGTERM, log_text
    assert "Exception ignored" not in log_text
    with (
        Store.open(settings["database"]["url"], create=True) as store,
        store.read_transaction() as uow,
    ):
        assert uow.lease.get_state().holder is None
