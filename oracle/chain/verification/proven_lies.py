"""Distinguishes invented data from answers that are wrong by accident, late or truncated.

If the proven receipts of a block do not contain a log, the endpoint invented or changed the log.
An answer that contradicts its header may be an accident, so the endpoint is queried a second time,
about this block only.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from oracle.chain.verification.calibration import HeaderFeature
from oracle.chain.verification.window_check import ContradictionError
from oracle.domain.logs import Log
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import RpcError

# Number of occurrences of each log content (the log fields that the receipts root commits to).
LogContentCounts = Counter[tuple[str, tuple[str, ...], str]]
# A function that fetches one block from an endpoint, and returns whether it was fully proven.
ProvabilityCheck = Callable[[Endpoint, int], bool]


def count_logs_by_content(logs: Iterable[Log]) -> LogContentCounts:
    """Count the logs with each combination of address, topics and data."""
    return Counter((log.address, log.topics, log.data) for log in logs)


def count_invented_logs(served_logs: Iterable[Log], true_logs: Iterable[Log]) -> int:
    """Count the served logs that are not among the true logs.

    Logs are compared by content.
    """
    return (count_logs_by_content(served_logs) - count_logs_by_content(true_logs)).total()


@dataclass(frozen=True, slots=True)
class MisbehaviourDetector:
    """Excludes endpoints that are proven wrong while windows are read."""

    endpoints: EndpointPool
    is_block_provable: ProvabilityCheck

    def check_repaired_logs(
        self, endpoint: Endpoint, served_logs: Sequence[Log], true_logs: Sequence[Log]
    ) -> None:
        """Compare an endpoint's logs with the logs that receipts proved.

        An endpoint that invented logs is marked as proven wrong. An endpoint that omitted logs is
        only deprioritised, because its own receipts contain the logs. If it also omits logs of
        blocks that cannot be proven, the audit finds them.
        """
        invented_count = count_invented_logs(served_logs, true_logs)
        if invented_count:
            blocks_text = f"blocks {served_logs[0].block} to {served_logs[-1].block}"
            message = (
                f"returned {invented_count} logs of {blocks_text} that are not in the receipts"
            )
            self.endpoints.endpoint_list.mark_proven_wrong(endpoint.name, message)

    def recheck_contradictions(
        self, contradictions: Iterable[ContradictionError], proving_endpoint: str
    ) -> None:
        """Query endpoints again whose answers contradicted a header.

        Another endpoint has returned the window in the meantime.
        """
        for error in contradictions:
            # A bloom mismatch alone cannot prove an endpoint wrong.
            if error.feature is not HeaderFeature.BLOOM and error.endpoint != proving_endpoint:
                self._recheck_contradiction(error, proving_endpoint)

    def _recheck_contradiction(self, error: ContradictionError, proving_endpoint: str) -> None:
        endpoint_by_name = {endpoint.name: endpoint for endpoint in self.endpoints}
        accused_endpoint = endpoint_by_name[error.endpoint]
        try:
            if self.is_block_provable(endpoint_by_name[proving_endpoint], error.number):
                self.is_block_provable(accused_endpoint, error.number)
        except ContradictionError as second_error:
            if (second_error.endpoint, second_error.feature) == (error.endpoint, error.feature):
                self.endpoints.endpoint_list.mark_proven_wrong(
                    error.endpoint, f"{second_error.detail}; confirmed by a second request"
                )
        except RpcError:
            return
