"""Faulty workers, in front of a real pool or instead of one."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from typing_extensions import override

from oracle.chain.segments.process_pool import ProcessPool, WorkerDiedError
from oracle.chain.segments.segment_request import SegmentPlan, SegmentRequest

# The changes of a response; `before` are the bytes for the previous request.
Change = Callable[[bytes, bytes], bytes]


def get_worker_pids(pool: ProcessPool) -> list[int]:
    """Return the process ids of the running workers."""
    processes = (worker._process for worker in pool._workers)
    return [process.pid for process in processes if process is not None]


@dataclass
class Lying:
    """Changes the first `times` responses; later ones are unchanged."""

    pool: ProcessPool
    change: Change
    times: int
    before: bytes = b""
    given_up: list[Future[bytes]] = field(default_factory=list)

    @property
    def plan(self) -> SegmentPlan:
        return self.pool.plan

    @property
    def worker_count(self) -> int:
        return self.pool.worker_count

    def submit(self, order: SegmentRequest) -> Future[bytes]:
        answer = self.pool.submit(order)
        if not self.times:
            return answer
        self.times -= 1
        falsified: Future[bytes] = Future()
        honest = answer.result()
        falsified.set_result(self.change(honest, self.before))
        self.before = honest
        return falsified

    def abort_request(self, future: Future[bytes]) -> None:
        self.given_up.append(future)

    def close(self) -> None:
        self.pool.close()


class _Hung(Future[bytes]):
    """A future that is never done; waiting for it ends with the caller's timeout."""

    @override
    def result(self, timeout: float | None = None) -> bytes:
        raise TimeoutError


@dataclass
class Hanging(Lying):
    """Never answers the first `times` requests."""

    @override
    def submit(self, order: SegmentRequest) -> Future[bytes]:
        if not self.times:
            return self.pool.submit(order)
        self.times -= 1
        return _Hung()


@dataclass
class DyingAt(Lying):
    """Dies at one block, whenever it is in a range."""

    block: int = 0

    @override
    def submit(self, order: SegmentRequest) -> Future[bytes]:
        if not order.first <= self.block <= order.last:
            return self.pool.submit(order)
        died: Future[bytes] = Future()
        died.set_exception(WorkerDiedError("a worker died while preparing a range"))
        return died
