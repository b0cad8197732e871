"""A harness that creates system tasks: windows of an hour, and a balance for the tasks."""

from web3 import Web3

from oracle.bindings.probe_calls import ProbeOrder
from oracle.dispatch.probe_wants import ProbeSettings
from oracle.domain.events.network_events import TaskKind
from tests.support.evm.network import ETHER, TIMEOUT
from tests.support.txmgr.dispatch_harness import DispatchHarness

WINDOW = 3_600
FEE = ETHER // 100


def build_probe_settings(*, group: bool = True, max_fee: int = 6 * FEE) -> ProbeSettings:
    order = ProbeOrder(TaskKind.SD, (), size=1, timeout=TIMEOUT, fee=FEE)
    return ProbeSettings(WINDOW, max_fee, group, order)


class ProbingHarness(DispatchHarness):
    """A daemon with `[probing]`, whose dispatcher has a balance in the network contract."""

    probing = build_probe_settings()

    def wait(self, seconds: int) -> None:
        """Let the next block follow after `seconds`, and run the daemon."""
        self.testbed.chain.later(seconds)
        self.testbed.chain.mine()
        self.turn()

    def begin_window(self) -> None:
        """Advance the chain into a new window, and run the daemon on the window's first block."""
        self.turn()
        self.wait(WINDOW - self.testbed.chain.time % WINDOW)

    def pass_window(self) -> None:
        """Let every node become due for a probe; mine a block for the calls, and one to read."""
        self.wait(WINDOW * 9 // 10)
        for _ in range(2):
            self.block()

    def probed(self) -> list[bytes]:
        """Return the tasks that the dispatcher has created, from the chain's events."""
        task_created = self.testbed.network.contract.events.TaskCreated()
        argument_filters = {"creator": Web3.to_checksum_address(self.starts.account.address)}
        return [
            event["args"]["task"]
            for event in task_created.get_logs(from_block=0, argument_filters=argument_filters)
        ]

    def credit(self) -> int:
        return self.testbed.network.owed(Web3.to_checksum_address(self.starts.account.address))


def fund_dispatcher(harness: ProbingHarness, wei: int = ETHER) -> None:
    network = harness.testbed.network
    dispatcher = Web3.to_checksum_address(harness.starts.account.address)
    network.by(network.admin, network.does.fund(dispatcher), value=wei)
