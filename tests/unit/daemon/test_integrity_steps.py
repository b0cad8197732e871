"""How the turns for being sure of what the database holds leave the others their time."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from oracle.daemon.maintenance_steps import MaintenanceSteps
from oracle.devnet.fakechain.virtual_clock import VirtualClock
from oracle.domain.coverage import IngestScope
from oracle.indexer.loop import IngestState


def test_what_takes_long_to_count_is_counted_the_more_rarely():
    clock, counted = VirtualClock(), list[float]()
    nothing_yet = SimpleNamespace(get=lambda: None)

    @contextmanager
    def two_seconds_long():
        counted.append(clock())
        clock.pass_by(2)
        yield SimpleNamespace(cursor=nothing_yet, identity=nothing_yet)

    app: Any = SimpleNamespace(
        store=SimpleNamespace(reading=two_seconds_long),
        folder=SimpleNamespace(scope=IngestScope((), ())),
    )
    work = MaintenanceSteps(app, 1, IngestState(clock=clock))
    began = clock()
    for _ in range(50):
        work.count()
        clock.pass_by(10)

    assert [at - began for at in counted] == [0, 202, 404]
