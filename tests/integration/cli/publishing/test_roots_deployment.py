"""A QoSRoots, its timelock and its words, deployed as planned and checked on a real chain.

Every check passes on the contracts as planned, and names each single setting that is wrong.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from oracle.bindings import qos_roots
from oracle.bindings.codec import encode_call
from oracle.bindings.contract_views import ARB_SYS
from oracle.bindings.deployment import (
    OracleSetup,
    WordsSetup,
    compute_contract_address,
    override_limits,
)
from oracle.bindings.inspection import (
    ContractMismatch,
    ExpectedConfiguration,
    inspect_roots_contract,
)
from oracle.bindings.kick_target_checks import find_kick_target_mismatches
from oracle.bindings.kick_targets import TASK_NETWORK
from oracle.bindings.objections import ObjectionsContract
from oracle.bindings.power import (
    find_contract_weaknesses,
    find_timelock_weaknesses,
    find_words_contract_mismatches,
)
from oracle.bindings.qos_roots import RootsConfiguration, RootsContract
from oracle.bindings.qos_words import WordsContract
from oracle.bindings.timelock import (
    CANCELLER_ROLE,
    ROLE_ID_BY_NAME,
    TIMELOCK,
    TimelockedCall,
    build_grant_canceller_call,
    build_timelock_creation_code,
    fetch_timelock_roles,
)
from oracle.cli.setup.contract_calls import encode_contract_call
from oracle.cli.setup.contract_deploy import complete_oracle_setup
from oracle.cli.setup.deploy_plan import DeployPlan, check_key_separation
from oracle.daemon.compose import compute_rules_hash
from oracle.daemon.config.loader import Config, read_config
from oracle.daemon.config.oracle_section import build_report_settings
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import build_configured_rules
from oracle.domain.ids import ZERO_ADDRESS, Address, Hash
from oracle.domain.reports.report import ReportSettings
from oracle.rpc.fanout import PoolView
from oracle.signing.local import KeySigner
from oracle.signing.typed_data import Domain
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.client.fee_quote import SendLimits
from tests.contracts.oracle_signing import SIGNERS
from tests.pools import pool_of, view_of
from tests.support.cli.local_network import write_config
from tests.support.evm.anvil import run_anvil
from tests.support.evm.chain import Chain
from tests.support.evm.network import ETHER, Network

pytestmark = [pytest.mark.evm, pytest.mark.slow]

DAY = 86_400
DELAY = 2 * DAY
CHAIN_ID = 31337
KEY = b"\x07" * 32
CAPS = SendLimits(fee_per_gas=10**12, cost_per_transaction=ETHER, cost_per_day=10 * ETHER)
OUTSIDER = Address("0x" + 40 * "9")


@dataclass
class Deployment:
    """Everything that the plan deployed, and the accounts that hold its roles."""

    chain: Chain
    network: Network
    config: Config
    planned_setup: OracleSetup
    timelock: Address
    oracle: Address
    words: Address
    objections: Address
    start_block: int

    @property
    def owner(self) -> Address:
        """The owner of the timelock."""
        return self.planned_setup.admin

    @property
    def setup(self) -> OracleSetup:
        """The constructor argument of the deployed oracle, whose admin is the timelock."""
        return replace(self.planned_setup, admin=self.timelock)

    @property
    def view(self) -> PoolView:
        return view_of(self.chain.url)

    @property
    def settings(self) -> ReportSettings:
        return build_report_settings(self.config.oracle, build_configured_rules(self.config))

    @property
    def expected(self) -> ExpectedConfiguration:
        return ExpectedConfiguration(
            target=Address(self.network.contract.address.lower()),
            rules_hash=self.setup.rules_hash,
            settings=self.settings,
            signer=self.setup.signers[0],
            transmitter=None,
            anchor_window=200,
        )

    def send(self, to: Address | None, calldata: str, sender: str = "") -> Address:
        """Send calldata or a deployment; return the new contract's address, or `to`."""
        fields = {} if to is None else {"to": to}
        receipt = self.chain.transact(data=calldata, sender=sender or None, **fields)
        return Address(receipt.raw["contractAddress"]) if to is None else to

    def run_through_timelock(self, call: TimelockedCall) -> None:
        self.send(self.timelock, call.encode_schedule_call(DELAY), self.owner)
        self.chain.later(DELAY)
        self.send(self.timelock, call.encode_execute_call())

    def check(self, oracle: Address) -> list[ContractMismatch]:
        """Return what `contract check` finds at this oracle, without the timelock's roles."""
        configuration, mismatches = inspect_roots_contract(self.view, oracle, self.expected)
        weaknesses = find_contract_weaknesses(self.view, configuration, self.settings)
        return [*mismatches, *weaknesses]

    def check_timelock(self, oracle: Address) -> list[ContractMismatch]:
        configuration = RootsContract(self.view, oracle).fetch_configuration()
        roles = fetch_timelock_roles(self.view, configuration.admin, self.start_block)
        return find_timelock_weaknesses(roles, oracle, configuration, [])

    def check_words(self, words: Address) -> list[ContractMismatch]:
        configuration = self.configuration
        contract = WordsContract(self.view, words)
        found = contract.fetch_configuration(configuration.contract_status.block)
        return find_words_contract_mismatches(found, self.oracle, configuration)

    def check_objections(self, oracle: Address) -> list[ContractMismatch]:
        block = self.configuration.contract_status.block
        return ObjectionsContract(self.view, self.objections).find_mismatches(oracle, block)

    @property
    def configuration(self) -> RootsConfiguration:
        return RootsContract(self.view, self.oracle).fetch_configuration()


def build_config(url: str, network: Network, folder: Path) -> Config:
    return read_config(
        write_config(
            {
                "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
                "chain": {"id": CHAIN_ID, "endpoints": [url], "finality_depth": 4},
                "network": {"contracts": {"TaskNetwork": network.contract.address.lower()}},
            },
            folder / "config.toml",
        )
    )


@pytest.fixture(scope="module")
def fresh_deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with run_anvil() as url:
        chain = Chain(url)
        chain.mine(3)
        network = Network.deployed(chain)
        config = build_config(url, network, tmp_path_factory.mktemp("deployment"))
        owner, pauser, vetoer = (Address(who.lower()) for who in chain.accounts[5:8])
        signers = tuple(Address(signer.address.lower()) for signer in SIGNERS)
        setup = OracleSetup(
            admin=owner,
            signers=signers,
            rules_hash=compute_rules_hash(config, open_reader(config)),
            quorum=2,
            pauser=pauser,
            vetoer=vetoer,
        )
        check_key_separation(setup)
        payer = KeySigner(KEY)
        chain.rpc("anvil_setBalance", payer.address, hex(10 * ETHER))
        start_block = chain.block
        publisher = SenderAccount(pool_of(url), domain=Domain(CHAIN_ID, ZERO_ADDRESS), caps=CAPS)
        setup = complete_oracle_setup(config, setup, [], dev=False)
        chain.rpc("evm_setAutomine", True)
        DeployPlan(
            config,
            publisher,
            payer,
            setup,
            DELAY,
            words_setup=WordsSetup(),
            with_objections=True,
        ).run(yes=True, dry_run=False, as_json=True)
        chain.rpc("evm_setAutomine", False)
        timelock, oracle, words, objections = (
            compute_contract_address(payer.address, nonce) for nonce in range(4)
        )
        deployment = Deployment(
            chain, network, config, setup, timelock, oracle, words, objections, start_block
        )
        deployment.run_through_timelock(build_grant_canceller_call(timelock, oracle))
        network.by(network.admin, network.does.setOracle(chain.web3.to_checksum_address(oracle)))
        yield deployment
        chain.close()


@pytest.fixture
def deployment(fresh_deployment: Deployment) -> Iterator[Deployment]:
    with fresh_deployment.chain.undone():
        yield fresh_deployment


def subjects(mismatches: list[ContractMismatch]) -> list[str]:
    return [mismatch.subject for mismatch in mismatches]


# --- as planned ---


def test_deployment_that_matches_its_plan_passes_every_check(deployment: Deployment):
    assert deployment.check(deployment.oracle) == []
    assert deployment.check_timelock(deployment.oracle) == []
    assert deployment.check_words(deployment.words) == []
    assert deployment.check_objections(deployment.oracle) == []
    target = Address(deployment.network.contract.address.lower())
    assert not find_kick_target_mismatches(
        deployment.view, TASK_NETWORK, target, deployment.oracle, {}
    )


def test_objection_contract_of_another_oracle_is_reported(deployment: Deployment):
    assert subjects(deployment.check_objections(OUTSIDER)) == ["oracle of the objections"]


def test_oracle_has_planned_configuration(deployment: Deployment):
    configuration, setup = deployment.configuration, deployment.setup
    assert (configuration.admin, configuration.target) == (deployment.timelock, setup.target)
    assert (configuration.pauser, configuration.vetoer) == (setup.pauser, setup.vetoer)
    assert (configuration.kept_rounds, configuration.lag_rounds) == (256, 2)
    assert configuration.contract_status.limits == setup.limits
    assert (configuration.floors, configuration.tightest) == (setup.floors, setup.tightest)
    assert configuration.kick_limits == setup.kick_limits
    assert configuration.kick_floors == setup.kick_floors
    assert (configuration.signers, configuration.quorum) == (setup.signers, 2)


def test_vetoer_can_cancel_operation_through_oracle(deployment: Deployment):
    replacement = encode_call(qos_roots.CONTRACT, "setVetoer", OUTSIDER)
    call = TimelockedCall(deployment.oracle, replacement)
    deployment.send(deployment.timelock, call.encode_schedule_call(DELAY), deployment.owner)
    timelock = deployment.chain.contract(TIMELOCK, deployment.timelock)
    operation = timelock.functions.hashOperation(
        deployment.chain.web3.to_checksum_address(deployment.oracle),
        *(0, bytes.fromhex(replacement[2:]), bytes(32), bytes(32)),
    ).call()
    assert call.operation_id == "0x" + operation.hex()
    assert timelock.functions.isOperationPending(operation).call()
    cancellation = encode_contract_call("cancel-operation", [call.operation_id])
    deployment.send(deployment.oracle, cancellation, deployment.setup.vetoer)
    assert not timelock.functions.isOperationPending(operation).call()


def test_dry_run_prints_all_contracts_and_sends_nothing(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
):
    payer = KeySigner(b"\x08" * 32)
    block = deployment.chain.block
    publisher = SenderAccount(
        pool_of(deployment.chain.url), domain=Domain(CHAIN_ID, ZERO_ADDRESS), caps=CAPS
    )
    plan = DeployPlan(
        deployment.config,
        publisher,
        payer,
        deployment.planned_setup,
        DELAY,
        words_setup=WordsSetup(),
    )
    plan.run(yes=False, dry_run=True, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert (answer["contract"], answer["address"]) == ("QoSRoots", None)
    assert answer["arguments"]["admin"] == answer["timelock"]["address"]
    assert answer["arguments"]["tightest"]["min_interval"] == 60
    assert answer["words_contract"]["address"] == compute_contract_address(payer.address, 2)
    assert deployment.chain.block == block


def put_arb_sys(chain: Chain) -> None:
    """Give the chain ArbSys, as an Arbitrum chain has it."""
    double = chain.deploy("testing/ArbSysDouble")
    chain.rpc("anvil_setCode", ARB_SYS, chain.rpc("eth_getCode", double.address, "latest"))


def test_deployment_plan_on_arbitrum_sets_the_arbitrum_flag(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
):
    put_arb_sys(deployment.chain)
    publisher = SenderAccount(
        pool_of(deployment.chain.url), domain=Domain(CHAIN_ID, ZERO_ADDRESS), caps=CAPS
    )
    plan = DeployPlan(
        *(deployment.config, publisher, KeySigner(b"\x08" * 32)),
        *(deployment.planned_setup, DELAY),
    )
    plan.run(yes=False, dry_run=True, as_json=True)
    assert json.loads(capsys.readouterr().out)["arguments"]["arbitrum"] is True


# --- one wrong setting ---

SIGNER = Address(SIGNERS[0].address.lower())
WRONG_SETUPS: dict[str, dict[str, Any]] = {
    "rulesHash": {"rules_hash": Hash("0x" + 64 * "5")},
    "target": {"target": OUTSIDER},
    "quorum": {"quorum": 1, "signers": (SIGNER,)},
    "pauser": {"pauser": ZERO_ADDRESS},
    "vetoer": {"vetoer": ZERO_ADDRESS},
    "admin": {"admin": OUTSIDER},
    "LAG": {"lag_rounds": 1},
    "KEPT": {"kept_rounds": 100},
}
WRONG_LIMITS: dict[str, dict[str, int]] = {
    "limits.kickBelow": {"kick_below": 1999},
    "limits.anchorWindow": {"anchor_window": 50},
    "limits.minInterval": {"min_interval": 61},
    "limits.max_age_seconds": {"max_age_seconds": 3599},
    "limits.veto_delay": {"veto_delay": 3599},
    "limits.kick_rounds": {"kick_rounds": 1},
}
WRONG_FLOORS: dict[str, dict[str, int]] = {
    "floors.veto_delay": {"veto_delay": 0},
    "floors.kick_rounds": {"kick_rounds": 1},
    "floors.kick_below": {"kick_below": 2001},
}
WRONG_TIGHTEST: dict[str, dict[str, int]] = {
    "tightest.min_interval": {"min_interval": 61},
    "tightest.max_age_seconds": {"max_age_seconds": 3599},
    "tightest.veto_delay": {"veto_delay": 8 * DAY},
    "tightest.kick_rounds": {"kick_rounds": 20_000},
    "tightest.kick_below": {"kick_below": 0},
}
WRONG_KICK_LIMITS: dict[str, dict[str, int]] = {
    "bucket_most": {"bucket_most": 13},
    "bucket_per_frame": {"bucket_per_frame": 5},
}


def check_setup(deployment: Deployment, setup: OracleSetup) -> list[str]:
    """Deploy a QoSRoots with this argument, and return the subjects that are wrong."""
    return subjects(deployment.check(deployment.send(None, setup.creation_code)))


@pytest.mark.parametrize(("subject", "changes"), WRONG_SETUPS.items())
def test_wrong_constructor_argument_is_reported(
    deployment: Deployment, subject: str, changes: dict[str, Any]
):
    found = check_setup(deployment, replace(deployment.setup, **changes))
    # A single signer is no quorum.
    assert found == (["signers"] if subject == "quorum" else [subject])


@pytest.mark.parametrize(("subject", "changes"), WRONG_LIMITS.items())
def test_wrong_limit_is_reported(deployment: Deployment, subject: str, changes: dict[str, int]):
    setup = deployment.setup
    floors = override_limits(setup.floors, {"veto_delay": 0, "kick_rounds": 0})
    changed = override_limits(setup.limits, changes)
    found = check_setup(deployment, replace(setup, limits=changed, floors=floors))
    assert [name for name in found if not name.startswith("floors.")] == [subject]


@pytest.mark.parametrize(("subject", "changes"), WRONG_FLOORS.items())
def test_floor_below_the_required_minimum_is_reported(
    deployment: Deployment, subject: str, changes: dict[str, int]
):
    floors = override_limits(deployment.setup.floors, changes)
    assert check_setup(deployment, replace(deployment.setup, floors=floors)) == [subject]


@pytest.mark.parametrize(("subject", "changes"), WRONG_TIGHTEST.items())
def test_tightening_bound_that_is_too_strict_is_reported(
    deployment: Deployment, subject: str, changes: dict[str, int]
):
    tightest = override_limits(deployment.setup.tightest, changes)
    assert check_setup(deployment, replace(deployment.setup, tightest=tightest)) == [subject]


@pytest.mark.parametrize(("name", "changes"), WRONG_KICK_LIMITS.items())
def test_too_large_token_bucket_is_reported(
    deployment: Deployment, name: str, changes: dict[str, int]
):
    setup = deployment.setup
    floors = replace(setup.kick_floors, **changes)
    assert check_setup(deployment, replace(setup, kick_floors=floors)) == [f"kick_floors.{name}"]
    limits = replace(setup.kick_limits, **changes)
    found = check_setup(deployment, replace(setup, kick_floors=floors, kick_limits=limits))
    assert found == [f"kick_limits.{name}", f"kick_floors.{name}"]


def test_unexpected_contract_code_is_reported(deployment: Deployment):
    code = deployment.chain.rpc("eth_getCode", deployment.oracle, "latest")
    # The last bytes are metadata, so the contract still works.
    deployment.chain.rpc("anvil_setCode", deployment.oracle, code[:-2] + "00")
    assert subjects(deployment.check(deployment.oracle)) == ["code hash"]


def test_oracle_built_for_another_chain_type_is_reported(deployment: Deployment):
    assert check_setup(deployment, replace(deployment.setup, arbitrum=True)) == ["ON_ARBITRUM"]
    put_arb_sys(deployment.chain)
    assert subjects(deployment.check(deployment.oracle)) == ["ON_ARBITRUM"]
    # A precompile of another chain has the same address, and refuses the call.
    deployment.chain.rpc("anvil_setCode", ARB_SYS, "0x5f5ffd")
    assert deployment.check(deployment.oracle) == []


def test_vetoer_equal_to_pauser_is_reported(deployment: Deployment):
    setup = replace(deployment.setup, vetoer=deployment.setup.pauser)
    assert check_setup(deployment, setup) == ["vetoer"]


def test_pending_role_offer_is_reported(deployment: Deployment):
    offer = encode_call(qos_roots.CONTRACT, "offerVetoer", OUTSIDER)
    deployment.send(deployment.oracle, offer, deployment.owner)
    assert subjects(deployment.check(deployment.oracle)) == ["pending vetoer"]
    transfer = encode_call(qos_roots.CONTRACT, "transferAdmin", OUTSIDER)
    deployment.run_through_timelock(TimelockedCall(deployment.oracle, transfer))
    found = subjects(deployment.check(deployment.oracle))
    assert found == ["pending admin", "pending vetoer"]


def test_signer_key_unknown_to_the_contract_is_reported(deployment: Deployment):
    expected = replace(deployment.expected, signer=OUTSIDER)
    _, mismatches = inspect_roots_contract(deployment.view, deployment.oracle, expected)
    assert subjects(mismatches) == ["signers"]


# --- the timelock ---


def call_timelock(deployment: Deployment, function: str, role: bytes, account: Address) -> None:
    calldata = encode_call(TIMELOCK, function, role, account)
    deployment.run_through_timelock(TimelockedCall(deployment.timelock, calldata))


def test_vetoer_with_canceller_role_is_reported(deployment: Deployment):
    vetoer = deployment.setup.vetoer
    call_timelock(deployment, "grantRole", CANCELLER_ROLE, vetoer)
    (weakness,) = deployment.check_timelock(deployment.oracle)
    assert (weakness.subject, weakness.actual) == ("canceller of the timelock", vetoer)


def test_oracle_without_canceller_role_is_reported(deployment: Deployment):
    call_timelock(deployment, "revokeRole", CANCELLER_ROLE, deployment.oracle)
    (weakness,) = deployment.check_timelock(deployment.oracle)
    assert weakness.subject == "canceller of the timelock"
    assert weakness.expected.startswith(f"also the oracle {deployment.oracle}")


@pytest.mark.parametrize("role", ["pauser", "vetoer"])
def test_role_holder_that_is_also_proposer_is_reported(deployment: Deployment, role: str):
    holder = getattr(deployment.planned_setup, role)
    proposer_role = ROLE_ID_BY_NAME["proposer"]
    call_timelock(deployment, "grantRole", proposer_role, holder)
    call_timelock(deployment, "revokeRole", proposer_role, deployment.owner)
    found = subjects(deployment.check_timelock(deployment.oracle))
    # The former proposer is still a canceller.
    assert found == ["canceller of the timelock", role]


@pytest.mark.parametrize("delay", [DAY - 1, 7 * DAY])
def test_timelock_delay_out_of_range_is_reported(deployment: Deployment, delay: int):
    timelock = deployment.send(None, build_timelock_creation_code(deployment.owner, delay))
    assert check_setup(deployment, replace(deployment.setup, admin=timelock)) == [
        "delay of the timelock"
    ]


# --- the words ---


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("FALL_SHARE", WordsSetup(fall_share=1001)),
        ("oracle", WordsSetup()),
    ],
)
def test_wrong_hot_set_setting_is_reported(
    deployment: Deployment, subject: str, words: WordsSetup
):
    oracle = deployment.oracle
    if subject == "oracle":
        oracle = deployment.send(None, deployment.setup.creation_code)
    other_words = deployment.send(None, words.build_creation_code(oracle))
    assert subjects(deployment.check_words(other_words)) == [f"{subject} of the words"]


def test_hot_set_with_a_different_lag_is_reported(deployment: Deployment):
    setup = replace(deployment.setup, lag_rounds=3)
    other_oracle = deployment.send(None, setup.creation_code)
    words = deployment.send(None, WordsSetup().build_creation_code(other_oracle))
    assert subjects(deployment.check_words(words)) == ["oracle of the words", "LAG of the words"]
