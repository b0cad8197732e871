"""How many questions one endpoint takes in a batch, learned from its refusals.

See docs/explanation/ingest.md#batches.
"""

from dataclasses import dataclass

from oracle.rpc.error_kinds import ErrorKind
from oracle.rpc.rpc_errors import RpcError

# Where batches begin; an endpoint that refuses them gets smaller ones from then on.
BATCH = 100
# Batches of this size are not made smaller by their rate, or by silence, alone.
_LEAST_THROTTLED = 10
# Of a batch that was refused as a whole: a smaller one may pass, and nothing is to be found out.
_OF_ITS_SIZE = {ErrorKind.TOO_LARGE, ErrorKind.THROTTLED}
# These say nothing about the size of a batch.
_NOT_FOR_BATCHES = {
    ErrorKind.THROTTLED,
    ErrorKind.REFUSED,
    ErrorKind.UNREACHABLE,
    ErrorKind.UNSUPPORTED,
    ErrorKind.RESTING,
}


@dataclass(slots=True)
class BatchSize:
    """Of one endpoint."""

    limit: int = BATCH

    def learn(self, limit: int) -> None:
        """Put at most so many questions into a batch from now on."""
        self.limit = max(1, min(BATCH, limit))

    def smaller(self, size: int, error: RpcError) -> int:
        """Return how large a batch to try after one that failed; raises `error` where none is.

        From then on no larger one is asked where its size was the reason: of a few questions no
        silence and no broken page is, and a bad minute must not cost a day of single questions.
        """
        if error.kind is ErrorKind.THROTTLED and error.of_batch and size > _LEAST_THROTTLED:
            # A batch that is more than a second allows never passes, however long we wait.
            self.limit = size // 2
        is_small = size <= _LEAST_THROTTLED
        is_late = is_small and error.kind is ErrorKind.SLOW
        if not is_unclear(error) and (is_late or error.kind in _NOT_FOR_BATCHES):
            raise error
        if not error.is_ours and (
            not is_small or error.of_batch or error.kind is ErrorKind.TOO_LARGE
        ):
            self.limit = size // 2
        return size // 2


def is_unclear(error: RpcError) -> bool:
    """Tell whether a batch was refused for being one, or for what it asks."""
    return error.of_batch and error.kind not in _OF_ITS_SIZE
