"""Three daemons of one contract with a quorum of two, on a chain whose clock tests set."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from devnet.demo.demo_system import read_report_settings
from oracle.bindings.codec import encode_call
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address
from oracle.store.outbox.records import PENDING_STATES
from tests.integration.reporters.member import Member
from tests.integration.reporters.waiting import wait_until
from tests.support.cli.local_network import LocalNetwork, Settings

ETHER = 10**18
QUORUM = 2
PERIOD = read_report_settings().period_seconds
# They poll at different times, and so ingest different windows.
_POLLS = (0.2, 0.4, 0.8)
# Head starts are in chain time, of which the three minutes of `due` pass in a second here: the
# reporter without a head start must still be the first.
_HEAD_START_SECONDS = 240
# The maximum number of blocks from the end of a period until its round is accepted.
_MOST_BLOCKS = 40


class Accepted(NamedTuple):
    """A transaction that called `push`; `round` is None if the contract rejected it."""

    round: int | None
    digest: str | None
    sender: str


@dataclass
class ReporterGroup:
    """The reporters, and their chain."""

    network: LocalNetwork
    members: list[Member]

    @property
    def up(self) -> list[Member]:
        return [member for member in self.members if member.is_up]

    @property
    def contract(self) -> Address:
        return self.network.stage.oracle

    @property
    def round(self) -> int:
        """Return the last round that the contract accepted."""
        call = {"to": self.contract, "data": encode_call("roots/QoSRoots", "head")}
        return int(self.network.stage.chain.make_request("eth_call", call, "latest")[2:66], 16)

    def start(self, *members: Member) -> None:
        """Start them at once, and wait until all are ready."""
        for member in members or self.members:
            member.start()
        for member in members or self.members:
            member.until_started()

    # --- rounds ---

    def due(self) -> None:
        """Play a wave, and end a period two blocks below the head."""
        self.network.play(1)
        clock = self.network.clock
        ends = (clock.now // PERIOD + 1) * PERIOD
        while clock.now < ends:
            self.network.mine(1)
        self.network.mine(2)

    def until_signed(self, number: int, *by: Member) -> None:
        """Wait until these reporters show a signature for a round."""
        for member in by:
            member.until_signed(number)

    def until_sent(self) -> None:
        """Wait until a transaction is pending."""
        wait_until(self.is_sent, "a transaction in the pool", self.tails)

    def is_sent(self) -> bool:
        return int(self.network.stage.chain.make_request("txpool_status")["pending"], 16) > 0

    def landed(self, number: int) -> None:
        """Mine until the contract has accepted a round;
        time passes only while blocks are mined.
        """
        for _ in range(_MOST_BLOCKS):
            wait_until(
                lambda: self.round >= number or self.is_sent() or self.is_early(),
                f"a transaction for round {number}",
                self.tails,
            )
            if self.round >= number:
                return
            self.network.mine(1)
        raise AssertionError(f"round {number} does not land\n{self.tails()}")

    def is_early(self) -> bool:
        """Return whether the first active reporter holds its push back for the head start of
        others.

        Their head starts last until it had its time, because the real clock is slower than the
        chain's.
        """
        first = next(member for member in self.up if not member.is_paused)
        waiting = [intent for intent in first.intents() if intent.state in PENDING_STATES]
        now = self.network.clock.now
        return bool(waiting) and all((intent.request.not_before or 0) > now for intent in waiting)

    def round_of(self, *signers: Member) -> int:
        """Run one more round, signed by all of these before it lands; return its number."""
        self.due()
        number = self.round + 1
        self.until_signed(number, *signers)
        self.landed(number)
        return number

    def caught_up(self, *members: Member) -> None:
        """Wait until these have folded the newest block."""
        head = self.network.head()
        for member in members or self.up:
            member.until_at(head)

    # --- the books ---

    def pushes(self) -> list[Accepted]:
        """Return every call of `push` on the chain in order, whatever its result."""
        chain = self.network.stage.chain
        push = _FUNCTIONS["push"].selector
        heights = range(self.network.head() + 1)
        blocks = chain.make_batch_request(
            [("eth_getBlockByNumber", hex(height), True) for height in heights]
        )
        sent = [
            tx
            for block in blocks
            for tx in block["transactions"]
            if tx["to"] == self.contract and tx["input"].startswith(push)
        ]
        calls = [("eth_getTransactionReceipt", tx["hash"]) for tx in sent]
        receipts = chain.make_batch_request(calls) if calls else []
        return [self._accepted(tx, receipt) for tx, receipt in zip(sent, receipts, strict=True)]

    def _accepted(self, tx: dict[str, Any], receipt: dict[str, Any]) -> Accepted:
        topic = load_abi("roots/QoSRoots").get_event("RoundAccepted").digest
        logs = [log for log in receipt["logs"] if log["topics"][0] == topic]
        if not logs:
            return Accepted(None, None, str(receipt["from"]))
        # The contract returns what was signed, from the six words of the report, before the push.
        report = tx["input"][10 : 10 + 6 * 64]
        call = {"to": self.contract, "data": _FUNCTIONS["reportDigest"].selector + report}
        before = hex(int(receipt["blockNumber"], 16) - 1)
        digest = self.network.stage.chain.make_request("eth_call", call, before)
        return Accepted(int(logs[0]["topics"][1], 16), str(digest), str(receipt["from"]))

    def check_rounds(self, *, failed: int = 0) -> list[Accepted]:
        """Assert that rounds were accepted once, in order, and that no reverted call was paid."""
        pushes = self.pushes()
        accepted = [push for push in pushes if push.round is not None]
        assert [push.round for push in accepted] == list(range(1, self.round + 1))
        assert len(pushes) - len(accepted) == failed, pushes
        return accepted

    def check_bytes(self, *members: Member, min_shared: int) -> None:
        """Assert that the reports of every period are equal, byte for byte, for all reporters
        that have them.
        """
        books = [member.reports() for member in members or self.members]
        for place, reports in enumerate(books):
            for other_reports in books[place + 1 :]:
                shared = reports.keys() & other_reports.keys()
                assert len(shared) >= min_shared
                assert {period: reports[period] for period in shared} == {
                    period: other_reports[period] for period in shared
                }

    def check_digests(self, *members: Member) -> None:
        """Assert that the statements shown for accepted rounds are those that were accepted."""
        for accepted in self.check_rounds():
            for member in members or self.up:
                if shown_digests := member.digests(accepted.round or 0):
                    assert shown_digests == {accepted.digest}, (member.name, accepted)

    def tails(self) -> str:
        return "\n".join(member.tail() for member in self.members)

    def set_signers(self, signers: Sequence[Address]) -> None:
        """Let the timelock set other signers, in a separate block."""
        self.network.administer("setSigners", list(signers), QUORUM)

    def give_ether(self, account: Address) -> None:
        self.network.stage.chain.make_request("anvil_setBalance", account, hex(ETHER))


_FUNCTIONS = load_abi("roots/QoSRoots").functions


@contextmanager
def reporter_group(
    network: LocalNetwork,
    folder: Path,
    databases: Sequence[str],
    change: Callable[[str, Settings], None] = lambda _name, _settings: None,
) -> Iterator[ReporterGroup]:
    """Create one reporter for each database, without starting it; all transmit, in the order of
    their ranks.

    `change` may change the settings of a reporter, by its name (a, b, c).
    """
    with ExitStack() as until_the_end:
        members: list[Member] = []
        for name, url, poll in zip("abc", databases, _POLLS, strict=True):
            home = folder / name
            settings = network.settings(home)
            settings["database"]["url"] = url or settings["database"]["url"]
            settings["chain"]["poll_seconds"] = poll
            settings["reporters"] = {
                "poll_seconds": 0.2,
                # A late peer would not be queried for ten times as long: on a
                # busy machine all are late.
                "timeout_seconds": 10.0,
                "transmit_rank": len(members),
                "transmit_delay_seconds": _HEAD_START_SECONDS,
            }
            change(name, settings)
            member = Member(name, home, settings)
            until_the_end.callback(member.close)
            members.append(member)
        for reporter in members:
            reporter.settings["reporters"]["peers"] = [
                peer.url for peer in members if peer is not reporter
            ]
        opened = ReporterGroup(network, members)
        for reporter in members:
            opened.give_ether(reporter.transmitter)
        opened.set_signers([reporter.signer for reporter in members])
        yield opened
