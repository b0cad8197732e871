"""A harness that also dispatches: its own key, draws in the fold, and starts on a real chain."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override
from web3 import Web3

from oracle.bindings.contract_errors import decode_refusal
from oracle.daemon.contexts import register_dispatch_calls
from oracle.dispatch.assigner import DrawHook, bind_or_check_dispatch_settings
from oracle.dispatch.contest_settlement import plan_contest_settlements
from oracle.dispatch.dispatch_calls import DispatchContext
from oracle.dispatch.dispatch_planner import plan_dispatch, plan_probes
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.probe_wants import ProbeSettings, ProbeWindowHook
from oracle.dispatch.results_folder import ResultsFolder
from oracle.dispatch.second_groups import plan_decided_contest_settlements, plan_second_groups
from oracle.domain.events.network_events import TaskKind
from oracle.domain.ids import Address, TaskKey
from oracle.indexer.folder import EventFolder
from oracle.kickouts.kick_calls import KickoutHook
from oracle.reporting.report_cutter import ReportCutter
from oracle.signing.local import KeySigner
from oracle.signing.signer import Signer
from oracle.signing.typed_data import Domain
from oracle.store.database import Store
from oracle.store.outbox.records import START_TASK
from oracle.store.state.draw_repository import StoredDraw
from oracle.systems.crynux.crynux_policy import CRYNUX_WEIGHTING, ModelSpread
from oracle.systems.crynux.pricing import Pricing
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.call_registry import CallRegistry
from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.context import AccountContext, StepResult, TransmitterRank
from oracle.txmgr.nonce_sync import reconcile_nonces
from tests.pools import pool_of
from tests.support.evm.chain import Chain
from tests.support.harness import (
    CHAIN_ID,
    LIMITS,
    RULES,
    SETTINGS,
    Harness,
    OracleTestbed,
    create_key_files,
    run_next_step,
)
from tests.support.txmgr.harness_fixtures import advance_one_second

ETHER = 10**18
_SECOND = Fraction(1)
# A task's value is its fee in wei per second, for a task of one second.
PRICING = Pricing(dict.fromkeys(TaskKind, _SECOND), dict.fromkeys(TaskKind, Fraction(0)))
NOBODY_IS_ASKED = ModelSpread(per_day=0)


def build_dispatch_settings(start_block: int = 0, **changes: Any) -> DispatchSettings:
    plain = DispatchSettings(
        start_block=start_block,
        rules=RULES,
        policy="crynux",
        weighting=CRYNUX_WEIGHTING,
        pricing=PRICING,
        alpha=Fraction(100),
        max_in_flight=200,
        # No download requests, which tests/integration/evm/test_downloads.py covers.
        spread=NOBODY_IS_ASKED,
    )
    return replace(plain, **changes)


def open_dispatcher_key(testbed: OracleTestbed) -> Signer:
    """Return the dispatcher's key, opened again for each daemon."""
    return KeySigner.open(
        testbed.key_folder / "dispatcher.json", testbed.key_folder / "dispatcher.password"
    )


def register_dispatcher(testbed: OracleTestbed) -> OracleTestbed:
    """Register one of our keys as the network's dispatcher."""
    chain, network = testbed.chain, testbed.network
    signer = KeySigner.open(*create_key_files(testbed.key_folder, "dispatcher"))
    chain.send(
        network.does.setDispatcher(Web3.to_checksum_address(signer.address)), sender=network.admin
    )
    chain.rpc("anvil_setBalance", signer.address, hex(10 * ETHER))
    return testbed


class DispatchHarness(Harness):
    """One daemon with `[dispatch]`."""

    dispatch: DispatchSettings | None = None
    probing: ProbeSettings | None = None
    results: ResultsFolder | None = None
    dispatching: DispatchContext
    batch_size = 100

    @override
    def open(self) -> None:
        super().open()
        testbed = self.testbed
        if self.dispatch is None:
            self.dispatch = build_dispatch_settings(start_block=testbed.built_at)
        with self.store.transaction() as uow:
            bind_or_check_dispatch_settings(uow, self.dispatch)
        reporter = ReportCutter(
            self._reader,
            RULES,
            SETTINGS,
            Domain(CHAIN_ID, testbed.address),
            anchor_window=LIMITS.anchor_window,
        )
        self.folder = EventFolder(
            RULES,
            self._reader,
            [
                reporter,
                DrawHook(self.dispatch, self._reader),
                ProbeWindowHook(self.probing),
                KickoutHook(),
            ],
        )
        network = Address(testbed.network.contract.address.lower())
        publisher = SenderAccount(
            pool_of(*self.urls),
            domain=Domain(CHAIN_ID, network),
            caps=self.caps,
            keys=open_dispatcher_key(testbed),
        )
        self.dispatching = self._dispatching(publisher, self.dispatch)
        with self.store.transaction() as uow:
            # Another test's database may have sent with the same key.
            if uow.outbox.accounts.find_next_nonce(self.starts.account) is None:
                mined = testbed.chain.rpc(
                    "eth_getTransactionCount", self.starts.account.address, "latest"
                )
                uow.outbox.accounts.raise_next_nonce(
                    self.starts.account, int(mined, 16), self.starts.stamp
                )
        reconcile_nonces(self.starts)

    @property
    def starts(self) -> AccountContext:
        """The context of the account that starts tasks."""
        return self.dispatching.account_context

    @starts.setter
    def starts(self, account_context: AccountContext) -> None:
        account_context = replace(account_context, registry=CallRegistry(decode_refusal))
        self.dispatching = replace(self.dispatching, account_context=account_context)
        register_dispatch_calls(self.dispatching)

    def _dispatching(
        self, publisher: SenderAccount, dispatch: DispatchSettings
    ) -> DispatchContext:
        account_context = replace(
            self.context,
            sender_account=publisher,
            registry=CallRegistry(decode_refusal),
            rank=TransmitterRank(),
            send_settings=replace(self.context.send_settings, max_in_flight=None),
            batch_size=self.batch_size,
            role="dispatcher",
        )
        context = DispatchContext(account_context, dispatch, self.probing, self.results)
        register_dispatch_calls(context)
        return context

    @override
    def close(self) -> None:
        super().close()
        self.starts.sender_account.pool.close()

    def turn(self) -> list[StepResult]:
        """Run one turn of the scheduler for the dispatcher only."""
        self.index()
        step_results: list[StepResult] = []
        planners = (
            *(plan_dispatch, plan_contest_settlements, plan_decided_contest_settlements),
            *(plan_second_groups, plan_probes),
        )
        for step in (confirm_transactions, *planners, run_next_step):
            context: Any = self.dispatching if step in planners else self.starts
            while (step_result := step(context, self.source.fetch_heads())) is not None:
                step_results.append(step_result)
                assert len(step_results) < 100, step_results
        self.steps += step_results
        return step_results

    def block(self) -> None:
        """Mine one block, and run the daemon."""
        self.mine()
        self.turn()

    def draws(self, task: bytes) -> list[StoredDraw]:
        with self.store.read_transaction() as uow:
            return uow.draws.list_for_task(to_task_key(task))

    def standing(self) -> Mapping[TaskKey, Address]:
        with self.store.read_transaction() as uow:
            return {draw.task: draw.node for draw in uow.draws.list_active()}

    def start_states(self) -> list[str]:
        return self.states(START_TASK)

    def node_of(self, task: bytes) -> str:
        """Return the node that runs a task, according to the contract."""
        return str(self.testbed.network.read_task(task)["node"]).lower()


def to_task_key(task: bytes) -> TaskKey:
    return TaskKey("0x" + task.hex())


@pytest.fixture(scope="module")
def fresh_stage(fresh_chain: Chain, tmp_path_factory: pytest.TempPathFactory) -> OracleTestbed:
    testbed = OracleTestbed.built(fresh_chain, tmp_path_factory.mktemp("keys"))
    return register_dispatcher(testbed)


@pytest.fixture
def testbed(fresh_stage: OracleTestbed, chain: Chain) -> OracleTestbed:
    """Return the module's testbed; the test's changes of the chain are undone."""
    return advance_one_second(fresh_stage)


@pytest.fixture
def harness(testbed: OracleTestbed, sqlite_url: str, tmp_path: Path) -> Iterator[DispatchHarness]:
    with Store.open(sqlite_url) as opened:
        harness = DispatchHarness(testbed, opened, tmp_path / "evidence")
        yield harness
        harness.close()


@pytest.fixture
def plain_harness(testbed: OracleTestbed, sqlite_url: str, tmp_path: Path) -> Iterator[Harness]:
    """Yield a daemon on the same testbed without `[dispatch]`."""
    with Store.open(sqlite_url) as opened:
        harness = Harness(testbed, opened, tmp_path / "evidence")
        yield harness
        harness.close()


@pytest.fixture
def make_gas_expensive(harness: DispatchHarness) -> Iterator[Callable[[], None]]:
    """Yield a function that makes gas cost something; a snapshot does not undo this."""
    chain = harness.testbed.chain

    def begin() -> None:
        chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(10**9))
        harness.mine()

    yield begin
    chain.rpc("anvil_setNextBlockBaseFeePerGas", "0x0")
