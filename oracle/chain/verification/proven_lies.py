"""Distinguishes proven lies from answers that may be late, truncated or accidental.

Logs that the proven receipts do not contain were invented or changed. An answer that contradicts
its header may be an accident, so the endpoint is queried again, about that block alone.
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

# The log fields that the receipts root commits to; positions follow from the order alone.
Content = Counter[tuple[str, tuple[str, ...], str]]
# Fetches one block from an endpoint, and returns whether all of it could be proven.
Proves = Callable[[Endpoint, int], bool]


def content(logs: Iterable[Log]) -> Content:
    """Return how often each combination of address, topics and data occurs."""
    return Counter((log.address, log.topics, log.data) for log in logs)


def made_up(given: Iterable[Log], true: Iterable[Log]) -> int:
    """Return the number of given logs that do not exist in this form."""
    return (content(given) - content(true)).total()


@dataclass(frozen=True, slots=True)
class Lies:
    """Excludes endpoints that are proven wrong while windows are read."""

    endpoints: EndpointPool
    proves: Proves

    def weigh(self, endpoint: Endpoint, given: Sequence[Log], true: Sequence[Log]) -> None:
        """Compare the logs that an endpoint gave with those that the receipts proved.

        Omitted logs only move the endpoint behind the others, because its own receipts contain
        them; the audit of unproven blocks finds such omissions again.
        """
        count = made_up(given, true)
        if count:
            blocks = f"blocks {given[0].block} to {given[-1].block}"
            words = f"gave {count} logs of {blocks} that their receipts do not have"
            self.endpoints.listed.convict(endpoint.name, words)

    def look_again(self, told: Iterable[ContradictionError], by: str) -> None:
        """Query endpoints that contradicted headers again, after another one gave the window."""
        for error in told:
            # A bloom is not a proof.
            if error.feature is not HeaderFeature.BLOOM and error.endpoint != by:
                self._look_again(error, by)

    def _look_again(self, error: ContradictionError, by: str) -> None:
        named = {endpoint.name: endpoint for endpoint in self.endpoints}
        accused = named[error.endpoint]
        try:
            if self.proves(named[by], error.number):
                self.proves(accused, error.number)
        except ContradictionError as again:
            if (again.endpoint, again.feature) == (error.endpoint, error.feature):
                self.endpoints.listed.convict(error.endpoint, f"{again.words}; asked twice")
        except RpcError:
            return
