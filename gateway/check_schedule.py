"""Checks the nodes of each chain periodically, on separate threads, and reads stakes.

See docs/explanation/gateway.md#checks.
"""

import random
import threading
from collections.abc import Callable, Iterable

import structlog

from gateway.gateway_config import ChecksSection
from gateway.node_probe import NodeProbe
from gateway.selection_service import SelectionService
from oracle.domain.state.node import Membership
from oracle.errors import OracleError
from oracle.store.database import Store
from oracle.telemetry.logging_setup import is_power_of_two

# Outcomes that blame a node's settings request a round; this is the minimum time between rounds.
_LEAST_SECONDS = 5.0


class ChainCheck:
    """Rounds of checks of one chain, one at a time; `request_round` brings the next one forward."""

    def __init__(
        self,
        chain: str,
        told: ChecksSection,
        service: SelectionService,
        least_seconds: float = _LEAST_SECONDS,
    ) -> None:
        """Set up the checks; `min_seconds` is the minimum time between two rounds."""
        self._chain = chain
        self._least_seconds = least_seconds
        self._told = told
        self._service = service
        self._probe = NodeProbe(told.urls, told.timeout_seconds, told.most_at_once)
        self._soon = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"checks {chain}", daemon=True)

    def start(self) -> None:
        """Start a round now, and then periodically."""
        self._thread.start()

    def run_soon(self) -> None:
        """Start the next round now, or shortly after the last one."""
        self._soon.set()

    def end(self) -> None:
        """Start no further round."""
        self._over.set()
        self._soon.set()
        self._probe.close()

    def check(self) -> None:
        """Check all nodes once."""
        try:
            answers = self._probe.ask()
        except RuntimeError:
            # The pool was closed during a round that had just started.
            if self._over.is_set():
                return
            raise
        if not self._over.is_set():
            self._service.checked(self._chain, answers)

    def _run(self) -> None:
        while not self._over.is_set():
            self._soon.clear()
            self.check()
            share = random.random() * self._told.jitter  # noqa: S311  no secret
            seconds = self._told.every_seconds * (1 + share)
            least = min(seconds, self._least_seconds)
            if not self._over.wait(least):
                self._soon.wait(seconds - least)


class StakeWatch:
    """Reads the staked nodes from a daemon's database; on errors the previous set is kept."""

    def __init__(self, store: Store, every_seconds: float, service: SelectionService) -> None:
        self._store = store
        self._every_seconds = every_seconds
        self._service = service
        self._ended = threading.Event()
        self._failures = 0

    def start(self) -> None:
        """Read the stakes before returning, and then periodically."""
        self._try()
        threading.Thread(target=self._run, name="stakes", daemon=True).start()

    def end(self) -> None:
        """Stop reading stakes."""
        self._ended.set()

    def look(self) -> None:
        """Read the stakes once.

        Raises:
            OracleError: the database cannot be read.
        """
        with self._store.reading() as uow:
            staked = [
                node.address
                for node in uow.nodes.all()
                if node.membership is Membership.MEMBER and node.stake
            ]
        self._service.staked(staked)

    def _run(self) -> None:
        while not self._ended.wait(self._every_seconds):
            self._try()

    def _try(self) -> None:
        try:
            self.look()
        except OracleError as error:
            self._failures += 1
            if is_power_of_two(self._failures):
                structlog.get_logger().warning("stakes_read_failed", reason=str(error))


class CheckSchedule:
    """All periodic checks of a gateway."""

    def __init__(self, chains: Iterable[ChainCheck], stakes: StakeWatch | None) -> None:
        self._chains = list(chains)
        self._stakes = stakes

    def start(self) -> None:
        """Start all checks."""
        for each in self._all():
            each()

    def run_soon(self) -> None:
        """Start the next round of each chain now."""
        for chain in self._chains:
            chain.run_soon()

    def end(self) -> None:
        """Stop all checks; a running round ends by itself."""
        for chain in self._chains:
            chain.end()
        if self._stakes is not None:
            self._stakes.end()

    def _all(self) -> list[Callable[[], None]]:
        stakes = [] if self._stakes is None else [self._stakes.start]
        return [*stakes, *(chain.start for chain in self._chains)]
