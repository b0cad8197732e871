"""A complete daemon on a real chain without a script; Anvil mines when a test requests it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from oracle.bindings import deployment, qos_roots
from oracle.bindings.deployment import DEFAULT_LIMITS, NO_FLOORS, NO_KICK_FLOORS, OracleSetup
from oracle.chain.heads import Heads
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.profiles.profile_loader import load_profile
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.maintenance_jobs import MaintenanceJobs
from oracle.daemon.scheduler import JobLiveness
from oracle.daemon.senders import Senders
from oracle.daemon.sending_jobs import SendingJobs
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.reports.report import ReportSettings, hash_rules_and_settings
from oracle.hot_set.hot_set_planner import plan_hot_set_calls
from oracle.indexer.folder import EventFolder
from oracle.indexer.loop import IngestState, ingest_next_window
from oracle.kickouts.kick_calls import KickoutHook
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.kickouts.objection_sender import plan_objection_call
from oracle.quorum.key_watch import check_for_foreign_signatures
from oracle.reporting.report_cutter import ReportCutter
from oracle.reporting.report_planner import plan_push
from oracle.signing.key_locations import KeyFiles
from oracle.signing.keystore import create_keystore
from oracle.signing.local import KeySigner
from oracle.signing.typed_data import Domain
from oracle.store.database import Store
from oracle.store.identity import Identity
from oracle.store.outbox.records import Account, Intent, Stamp
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.txmgr.accounts_and_limits import ReporterKeys, SenderAccount
from oracle.txmgr.client.fee_quote import SendLimits
from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.context import AccountContext, StepResult
from oracle.txmgr.manager import run_step
from oracle.txmgr.nonce_sync import reconcile_nonces
from tests.harness_contexts import WithContexts, contexts_of
from tests.pools import pool_of, source_on
from tests.support.evm.chain import Chain
from tests.support.evm.groups import score_nodes_equally
from tests.support.evm.network import Network

ETHER = 10**18
CHAIN_ID = 31337
# A pool of four: a node that is always last is due after four groups, with a QoS of 0.2. A single
# creator orders all tasks.
RULES = replace(CRYNUX, name="test", pool_size=4, kickout_below=4 * UNIT, kick_creator_share=UNIT)
# Every report is due: the heartbeat is as long as a period.
SETTINGS = ReportSettings(heartbeat_seconds=60, ttl_seconds=600, kick_below=4000)
LIMITS = replace(
    DEFAULT_LIMITS, min_interval=0, kick_below=4000, veto_delay=120, kick_rounds=2, min_open=1
)
CAPS = SendLimits(fee_per_gas=100 * 10**9, cost_per_transaction=ETHER, cost_per_day=10 * ETHER)
RULES_HASH = hash_rules_and_settings(RULES, load_profile("reference").identity, SETTINGS)
FINALITY = 4
# A low number of PBKDF2 rounds, because the keys are disposable.
QUICK = 1000


def create_key_files(folder: Path, name: str) -> KeyFiles:
    """Create a key in a folder, and return its files."""
    files = KeyFiles(folder / f"{name}.json", folder / f"{name}.password")
    create_keystore(*files, iterations=QUICK)
    return files


def run_next_step(context: AccountContext, heads: Heads) -> StepResult | None:
    """Run the most urgent step of an account, and return its result."""
    return run_step(context, heads)


@dataclass(frozen=True)
class OracleTestbed:
    """The state that outlives a daemon: the contracts on the chain, and the keys."""

    chain: Chain
    network: Network
    oracle: Any
    keys: ReporterKeys
    key_folder: Path
    # The last block before the tests begin.
    built_at: int

    @classmethod
    def built(cls, chain: Chain, folder: Path) -> "OracleTestbed":
        """Deploy both contracts, let three nodes join and get scores, and fund the transmitter."""
        keys = ReporterKeys(
            KeySigner.open(*create_key_files(folder, "signer")),
            KeySigner.open(*create_key_files(folder, "transmitter")),
        )
        network = Network.deployed(chain)
        address = deploy_oracle(chain, network, keys)
        oracle = chain.contract(qos_roots.CONTRACT, address)
        chain.send(network.does.setOracle(oracle.address), sender=network.admin)
        for node in network.nodes[:3]:
            network.join(node)
        # A node without a score is in no report.
        score_nodes_equally(network, network.nodes[:3])
        built_at = int(chain.rpc("eth_blockNumber"), 16)
        testbed = cls(chain, network, oracle, keys, folder, built_at)
        chain.rpc("anvil_setBalance", testbed.transmitter, hex(ETHER))
        return testbed

    @property
    def address(self) -> Address:
        return Address(self.oracle.address.lower())

    @property
    def round(self) -> int:
        return int(self.oracle.functions.head().call()[0])

    @property
    def nonce(self) -> int:
        """The number of mined transactions of the transmitter."""
        return int(self.chain.rpc("eth_getTransactionCount", self.transmitter, "latest"), 16)

    @property
    def transmitter(self) -> Address:
        assert self.keys.transmitter is not None
        return self.keys.transmitter.address


def deploy_oracle(chain: Chain, network: Network, keys: ReporterKeys) -> Address:
    """Deploy the oracle contract as `contract deploy` does, with a key that becomes its admin."""
    assert keys.signer is not None
    assert keys.transmitter is not None
    admin = keys.transmitter
    chain.rpc("anvil_setBalance", admin.address, hex(ETHER))
    domain = Domain(CHAIN_ID, Address("0x" + 40 * "0"))
    publisher = SenderAccount(pool_of(chain.url), domain=domain, caps=CAPS, keys=keys)
    setup = OracleSetup(
        target=Address(network.contract.address.lower()),
        admin=Address(network.admin.lower()),
        signers=(keys.signer.address,),
        rules_hash=RULES_HASH,
        vetoer=Address(network.admin.lower()),
        limits=LIMITS,
        floors=NO_FLOORS,
        tightest=LIMITS,
        kick_floors=NO_KICK_FLOORS,
    )
    planned = deployment.plan_deployment(
        publisher.pool_view, setup.creation_code, admin.address, publisher.quote_fees()
    )

    def wait() -> bool:
        chain.mine()
        return True

    address, _ = deployment.deploy_contract(publisher.pool, admin, planned, CHAIN_ID, wait)
    publisher.pool.close()
    return address


@dataclass
class Harness(WithContexts):
    """One daemon on the testbed; `restart` continues as another process on the same database."""

    testbed: OracleTestbed
    store: Store
    folder_for_evidence: Path
    urls: Sequence[str] = ()
    # The provider's name by host, as in `chain.providers`.
    providers: Mapping[str, str] | None = None
    # The depth of the final block below the newest one.
    finality: int = FINALITY
    confirmations: int = 2
    caps: SendLimits = CAPS
    settings: ReportSettings = SETTINGS
    steps: list[StepResult] = field(default_factory=list)
    # Further fields of the context: a board, peers, a rank, terms of objections.
    equipment: dict[str, Any] = field(default_factory=dict)
    # The objections contract, if they are indexed.
    objections: Address | None = None

    def __post_init__(self) -> None:
        # Endpoints of two providers that always agree, so a fork is believed at once.
        url = self.testbed.chain.url
        self.urls = self.urls or [url, url.replace("127.0.0.1", "localhost")]
        contracts = {"TaskNetwork": Address(self.testbed.network.contract.address.lower())}
        self._contracts = contracts
        self._reader = EventReader.from_profile(
            "reference", contracts, self.testbed.address, objections_address=self.objections
        )
        with self.store.transaction() as uow:
            genesis = self.testbed.chain.rpc("eth_getBlockByNumber", "0x0", False)["hash"]
            uow.identity.ensure_stored_identity(
                Identity(CHAIN_ID, genesis, contracts, self.testbed.address, 0)
            )
            epoch = uow.lease.acquire("test", 3600)
            assert epoch is not None
            if self.testbed.keys.transmitter is not None:
                # The account deployed the contract: the chain knows its transaction, but no
                # database does.
                account = Account(CHAIN_ID, self.testbed.transmitter)
                if uow.outbox.accounts.find_next_nonce(account) is None:
                    uow.outbox.accounts.raise_next_nonce(
                        account, self.testbed.nonce, Stamp(0, epoch)
                    )
        self.epoch = epoch
        self.open()

    def open(self) -> None:
        """Start the daemon as a new process would."""
        testbed = self.testbed
        self.source = source_on(
            self._reader,
            *self.urls,
            depth=self.finality,
            # `localhost` is another name of the same proxies.
            providers={"localhost": "second"} if self.providers is None else self.providers,
        )
        domain = Domain(CHAIN_ID, testbed.address)
        reporter = ReportCutter(
            self._reader, RULES, self.settings, domain, anchor_window=LIMITS.anchor_window
        )
        self.folder = EventFolder(RULES, self._reader, [reporter, KickoutHook()])
        self.ingest = IngestState()
        rules_hash = hash_rules_and_settings(
            RULES, load_profile("reference").identity, self.settings
        )
        self.contexts = contexts_of(self, domain, RULES, rules_hash)
        self.contexts.register_reporter_calls()
        if self.context.sender_account.has_payer:
            reconcile_nonces(self.context)

    def close(self) -> None:
        self.source.close()
        self.context.sender_account.pool.close()

    def restart(self, **changes: Any) -> None:
        """Continue as another process would, with nothing but the database."""
        self.close()
        for name, value in changes.items():
            setattr(self, name, value)
        self.open()

    def reread(self) -> None:
        """Create the event reader again from the current code, and restart with this reader."""
        self._reader = EventReader.from_profile(
            "reference",
            self._contracts,
            self.testbed.address,
            objections_address=self.objections,
        )
        self.restart()

    # --- the daemon's work ---

    def index(self) -> None:
        while ingest_next_window(self.source, self.store, self.folder, self.ingest) is not None:
            pass

    def tick(self) -> list[StepResult]:
        """Run one turn of the scheduler: index, then do what is due until nothing is left."""
        self.index()
        step_results: list[StepResult] = []
        sends = (
            (confirm_transactions, run_next_step) if self.context.sender_account.has_payer else ()
        )
        hot_set = () if self.contexts.hot_set is None else (plan_hot_set_calls, *sends[1:])
        planned = (plan_objection_call, *sends[1:], plan_kickout_call, *sends[1:])
        for step in (*sends, plan_push, *sends[1:], *planned, *hot_set):
            step_results += self.repeat(step)
        self.steps += step_results
        return step_results

    def repeat(self, step: Callable[[Any, Heads], StepResult | None]) -> list[StepResult]:
        """Repeat an account's step, or a planner, until nothing is left to do."""
        step_results: list[StepResult] = []
        while (
            step_result := step(self._context_for(step), self.source.fetch_heads())
        ) is not None:
            step_results.append(step_result)
            assert len(step_results) < 100, step_results
        return step_results

    def _context_for(self, step: Any) -> Any:
        own = {
            plan_push: self.reporting,
            plan_kickout_call: self.kickouts,
            plan_objection_call: self.kickouts,
            plan_hot_set_calls: self.contexts.hot_set,
            check_for_foreign_signatures: self.quorum,
        }
        return own.get(step, self.context)

    # --- the chain's ---

    def period(self) -> None:
        """End the next period with a block in its last second, and mine two more blocks."""
        chain, length = self.testbed.chain, self.settings.period_seconds
        chain.at(chain.time // length * length + 2 * length - 1)
        chain.mine()
        self.mine(2)

    def mine(self, blocks: int = 1) -> None:
        """Mine blocks one second apart."""
        for _ in range(blocks):
            self.testbed.chain.later(1)
            self.testbed.chain.mine()

    def until_final(self) -> list[StepResult]:
        """Mine until everything so far is final, and run the daemon."""
        step_results = self.tick()
        self.mine(FINALITY + 1)
        return step_results + self.tick()

    def pushed(self) -> None:
        """Run one more round, from its period to its receipt."""
        before = self.testbed.round
        self.period()
        self.tick()
        self.mine()
        self.tick()
        assert self.testbed.round == before + 1, self.steps

    # --- the books ---

    def intents(self, kind: str | None = None) -> list[Intent]:
        """Return the intents, oldest first."""
        with self.store.read_transaction() as uow:
            intents = uow.outbox.intents.list_newest(1000)
        return [
            intent for intent in reversed(intents) if kind is None or intent.request.kind == kind
        ]

    def states(self, kind: str | None = None) -> list[str]:
        return [intent.state.value for intent in self.intents(kind)]

    def reports(self) -> list[tuple[str, str | None]]:
        """Return (state, reason) of the reports, oldest first."""
        with self.store.read_transaction() as uow:
            return [
                (stored_report.state.value, stored_report.reason)
                for stored_report in uow.reports.list_newest(1000)
            ]

    def journal(self) -> list[str]:
        with self.store.read_transaction() as uow:
            return [
                entry.event
                for intent in reversed(uow.outbox.intents.list_newest(1000))
                for entry in uow.outbox.journal.list_for_intent(intent.id)
            ]


def create_sending_jobs(harness: Harness) -> SendingJobs:
    """Return a daemon's sending jobs for a harness; they need no configuration."""
    health = DaemonHealth(JobLiveness(time.monotonic))
    index: Any = SimpleNamespace(store=harness.store, chain=harness.source, folder=harness.folder)
    maintenance = MaintenanceJobs(
        index, harness.epoch, harness.ingest, health, max_wait_seconds=None
    )
    senders = Senders(harness.contexts)
    return SendingJobs(senders, harness.ingest, health, maintenance.find_unreportable_state_reason)
