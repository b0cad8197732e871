"""Tells a lie that is proven from a word that may be late, cut or unlucky.

Rows that the proven receipts do not have were made up or changed, whoever sees it. An answer that
contradicts its header may be an accident: who gave it is asked again, about that block alone.
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

# What the root of the receipts is made of; where a log stands follows from their order alone.
Content = Counter[tuple[str, tuple[str, ...], str]]
# Reads one block whole from an endpoint, and tells whether everything of it was proven.
Proves = Callable[[Endpoint, int], bool]


def content(logs: Iterable[Log]) -> Content:
    """Return what is proven of logs: who said what, how often."""
    return Counter((log.address, log.topics, log.data) for log in logs)


def made_up(given: Iterable[Log], true: Iterable[Log]) -> int:
    """Count the logs that were given and do not exist as they were given."""
    return (content(given) - content(true)).total()


@dataclass(frozen=True, slots=True)
class Lies:
    """Quarantines who was proven wrong while windows are read."""

    endpoints: EndpointPool
    proves: Proves

    def weigh(self, endpoint: Endpoint, given: Sequence[Log], true: Sequence[Log]) -> None:
        """Compare what was given with what the receipts proved of the same blocks.

        Logs that are left out cost the endpoint its place and no more, for its own receipts have
        them: that is found again by who audits what was not proven.
        """
        count = made_up(given, true)
        if count:
            blocks = f"blocks {given[0].block} to {given[-1].block}"
            words = f"gave {count} logs of {blocks} that their receipts do not have"
            self.endpoints.listed.convict(endpoint.name, words)

    def look_again(self, told: Iterable[ContradictionError], by: str) -> None:
        """Ask those again who contradicted headers, now that `by` gave the same window whole."""
        for error in told:
            # A bloom says nothing certain.
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
