"""Fetches the statements of other reporters, without trusting the responses."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from enum import StrEnum

from typing_extensions import override

from oracle.domain.ids import Address
from oracle.quorum.wire_format import ReportMessage, decode_statements, is_genuine_message
from oracle.rpc.rpc_errors import RpcError
from oracle.rpc.transport import BoundedHttp, HttpAccess, redact_url
from oracle.telemetry import quorum_metrics

# Maximum size of a response. It is generous, because eight statements take about five kilobytes.
_MAX_BYTES = 64 * 1024
_OK, _NOT_FOUND = 200, 404
# After a response that took t seconds, the peer is not queried for t times this factor, but no
# longer than the maximum.
_BACKOFF_FACTOR, _MAX_BACKOFF_SECONDS = 10, 60.0
# A settled round is fetched twice more. These are the waits, in fetch intervals.
_RETRY_INTERVALS = (10, 30)
# Maximum number of rounds, and of unknown signers, that are remembered.
_MAX_ENTRIES = 64


class PeerResult(StrEnum):
    """The result of a request to a peer, a label of `oracle_quorum_peer_responses_total`."""

    GENUINE = "good"
    FORGED = "forged"
    MALFORMED = "bad"
    NO_RESPONSE = "none"


class Peer:
    """Another reporter.

    Its URL may contain a secret, so only scheme, host and port are shown.
    """

    def __init__(self, url: str, timeout_seconds: float, access: HttpAccess | None = None) -> None:
        """Create the client of a peer without sending a request.

        `timeout_seconds` is the maximum duration of a response. `access` contains the credentials
        that the peer requires, or is None if it requires none.

        Raises:
            InputError: the URL is not an http(s) URL.
        """
        self.name = redact_url(url, ("http", "https"), "[reporters] peers")
        self._http = BoundedHttp(
            url, name=self.name, max_bytes=_MAX_BYTES, access=access, watches_certificate=True
        )
        self._timeout_seconds = timeout_seconds
        self._is_busy = False
        self._backoff_until = 0.0

    @override
    def __repr__(self) -> str:
        return f"Peer({self.name})"

    def close(self) -> None:
        self._http.close()

    def start_fetch(self, round_number: int) -> "Future[list[ReportMessage]] | None":
        """Start a fetch in a thread.

        The result is None during another fetch or a backoff.
        """
        if self._is_busy or time.monotonic() < self._backoff_until:
            return None
        self._is_busy = True
        answer_future = Future[list[ReportMessage]]()
        # The thread is a daemon thread. Otherwise a peer that sends its headers byte by byte could
        # delay the exit of the process.
        threading.Thread(
            target=self._run_fetch, args=(round_number, answer_future), daemon=True
        ).start()
        return answer_future

    def _run_fetch(self, round_number: int, future: "Future[list[ReportMessage]]") -> None:
        started_at = time.monotonic()
        try:
            statements = self.fetch_statements(round_number)
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            future.set_exception(error)
            return
        finally:
            elapsed_seconds = time.monotonic() - started_at
            if elapsed_seconds >= self._timeout_seconds / 2:
                self._backoff_until = time.monotonic() + min(
                    _MAX_BACKOFF_SECONDS, _BACKOFF_FACTOR * elapsed_seconds
                )
            self._is_busy = False
        future.set_result(statements)

    def fetch_statements(self, round_number: int) -> list[ReportMessage]:
        """Fetch the peer's validly signed statements, and count the response."""
        fetch_result, statements = self.fetch_response(round_number)
        quorum_metrics.PEER_ANSWERS.labels(self.name, fetch_result).inc()
        return statements

    def fetch_response(self, round_number: int) -> tuple[PeerResult, list[ReportMessage]]:
        """Fetch the peer's validly signed statements, and classify the result of the request."""
        try:
            body = self._fetch_body(round_number)
            statements = [] if body is None else decode_statements(body)
        except RpcError:
            return PeerResult.NO_RESPONSE, []
        except ValueError:
            return PeerResult.MALFORMED, []
        genuine_statements = [
            statement for statement in statements if is_genuine_message(statement)
        ]
        is_genuine_response = len(genuine_statements) == len(statements)
        return PeerResult.GENUINE if is_genuine_response else PeerResult.FORGED, genuine_statements

    def _fetch_body(self, round_number: int) -> bytes | None:
        """Fetch the response body.

        The result is None if the peer has no statement about the round.

        Raises:
            RpcError: the peer does not respond.
            ValueError: the response is a redirect, has another status or is too large.
        """
        path = f"/v1/report/{round_number}"
        response = self._http.get(path, self._timeout_seconds, self._timeout_seconds)
        if response.status == _NOT_FOUND:
            return None
        if response.status != _OK:
            raise ValueError(f"unexpected HTTP status {response.status}")
        if response.is_truncated:
            raise ValueError(f"the response is larger than {_MAX_BYTES} bytes")
        return response.body


class PeerClients:
    """All other reporters, queried in parallel at most once per `interval_seconds`."""

    def __init__(
        self,
        peers: Sequence[Peer],
        interval_seconds: float,
        timeout_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a group of peers, which are queried at most once per `interval_seconds`.

        `timeout_seconds` is the maximum wait for the responses of all peers together.
        """
        self.all = tuple(peers)
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._last_fetch_by_round: dict[int, float] = {}
        # For each round, how often it was fetched again, and when it was last fetched.
        self._refetches_by_round: dict[int, tuple[int, float]] = {}
        # (Host, signer) pairs of unknown signers that were logged. Each pair is logged once,
        # because a reporter may publish for hours after its signer was removed.
        self._reported_signers: dict[tuple[str, Address], None] = {}

    @classmethod
    def from_urls(
        cls,
        urls: Sequence[str],
        interval_seconds: float,
        timeout_seconds: float,
        access: HttpAccess | None = None,
    ) -> "PeerClients":
        """Create clients of the reporters at these URLs.

        Raises:
            InputError: a URL is not an http(s) URL.
        """
        peers = [Peer(url, timeout_seconds, access) for url in urls]
        return cls(peers, interval_seconds, timeout_seconds)

    def fetch_statements(self, round_number: int) -> list[tuple[str, ReportMessage]]:
        """Fetch all peers' statements about a round, each with the peer's host.

        The result is empty if the round was fetched less than a fetch interval ago.
        """
        now = self._clock()
        if (
            not self.all
            or now - self._last_fetch_by_round.get(round_number, -self._interval_seconds)
            < self._interval_seconds
        ):
            return []
        # Drop fetches that are older than the interval, because they have no more effect.
        self._last_fetch_by_round = {
            earlier_round: fetched_at
            for earlier_round, fetched_at in self._last_fetch_by_round.items()
            if now - fetched_at < self._interval_seconds
        } | {round_number: now}
        return self._fetch_from_all_peers(round_number)

    def refetch_statements(self, round_number: int) -> list[tuple[str, ReportMessage]]:
        """Fetch the statements about a settled round again, if a refetch is due."""
        now = self._clock()
        attempts, last_fetch = self._refetches_by_round.pop(round_number, (0, now))
        is_due = (
            attempts < len(_RETRY_INTERVALS)
            and now - last_fetch >= _RETRY_INTERVALS[attempts] * self._interval_seconds
        )
        self._refetches_by_round[round_number] = (
            (attempts + 1, now) if is_due else (attempts, last_fetch)
        )
        for oldest_round in list(self._refetches_by_round)[:-_MAX_ENTRIES]:
            del self._refetches_by_round[oldest_round]
        return self._fetch_from_all_peers(round_number) if is_due else []

    def record_unknown_signer(self, host: str, signer: Address) -> bool:
        """Record a host's unknown signer, and return whether it is new."""
        is_first_report = (host, signer) not in self._reported_signers
        self._reported_signers[host, signer] = None
        for oldest_key in list(self._reported_signers)[:-_MAX_ENTRIES]:
            del self._reported_signers[oldest_key]
        return is_first_report

    def _fetch_from_all_peers(self, round_number: int) -> list[tuple[str, ReportMessage]]:
        fetch_requests = [(peer, peer.start_fetch(round_number)) for peer in self.all]
        pending_futures = [future for _, future in fetch_requests if future is not None]
        wait(pending_futures, self._timeout_seconds)
        statements: list[tuple[str, ReportMessage]] = []
        for peer, future in fetch_requests:
            if future is None or not future.done():
                quorum_metrics.PEER_ANSWERS.labels(peer.name, PeerResult.NO_RESPONSE).inc()
            else:
                statements += [(peer.name, statement) for statement in future.result()]
        return statements

    def close(self) -> None:
        for peer in self.all:
            peer.close()
