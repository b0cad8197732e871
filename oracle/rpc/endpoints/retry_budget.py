"""When a question that failed is asked again at once: a few times, of who mostly answers.

Between us and an endpoint a connection breaks, a proxy shows a page of its own, a node behind the
address is busy: what is asked again passes. Of an endpoint that is away nothing is asked twice.
"""

from dataclasses import dataclass, field
from threading import Lock

from oracle.rpc.rpc_errors import BLAMELESS, ErrorKind, RpcError

# Pauses before the second, third and fourth try, in seconds.
PAUSES = (0.05, 0.2, 0.5)
# What may pass by itself at once; an answer that was cut off may also be too long.
_TRIES = {
    ErrorKind.UNREACHABLE: 3,
    ErrorKind.INVALID: 3,
    ErrorKind.THROTTLED: 3,
    ErrorKind.NOT_THERE: 2,
    ErrorKind.CUT: 1,
}
# Each failure costs one, each answer gives one back; above half of it questions are asked again.
_MOST = 10
# What took longer to fail is not worth another try of the same, in seconds.
_QUICK_SECONDS = 1.0


@dataclass(slots=True)
class RetryBudget:
    """Of one endpoint; may be used by several threads at once."""

    _left: int = _MOST
    _lock: Lock = field(default_factory=Lock, repr=False)

    def succeeded(self) -> None:
        """Note an answer."""
        with self._lock:
            self._left = min(_MOST, self._left + 1)

    def pause(self, error: RpcError, tries: int, took: float) -> float | None:
        """Note a failure after so many tries again, which took so many seconds.

        Returns after how many seconds to ask the same once more; None: not at once.
        """
        with self._lock:
            self._left = max(0, self._left - (error.kind not in BLAMELESS))
            is_often = self._left > _MOST // 2
        if not is_often or took > _QUICK_SECONDS or tries >= _TRIES.get(error.kind, 0):
            return None
        return PAUSES[tries]
