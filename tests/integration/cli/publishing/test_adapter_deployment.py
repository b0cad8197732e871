"""`contract deploy` and `check` on a network without support for oracles:
the adapter is included.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from devnet.anvil import LocalChain, run_anvil
from devnet.crynux.crynux_network import ACCOUNTS, VSS, CrynuxNetwork, deploy_crynux_network
from devnet.crynux.crynux_show import build_settings
from devnet.demo.daemon_process import write_configuration
from devnet.demo.show import START_TIME, create_keys
from devnet.demo.stage import ETHER, ChainClock
from oracle.bindings.codec import encode_call
from oracle.bindings.kick_targets import encode_call_with_addresses
from oracle.bindings.timelock import (
    DEFAULT_DELAY,
    ROLE_ID_BY_NAME,
    TIMELOCK,
    TimelockedCall,
    build_grant_canceller_call,
)
from oracle.cli.main import run
from oracle.daemon.chain_endpoints import open_checked_chain
from oracle.daemon.config.loader import Config, read_config
from oracle.daemon.records import open_records
from oracle.daemon.senders import get_oracle_address, open_report_account
from oracle.domain.blocks import Position
from oracle.domain.ids import Address
from oracle.domain.reports.contract_state import ContractChanges
from oracle.domain.reports.node_kicks import (
    NEVER_EXPIRES,
    NO_TARGET,
    Expulsion,
    KickState,
    NodeKick,
)
from tests.integration.reporters.waiting import wait_until

GONE, REFUSED, LAPSED, VETOED, READMITTED = (Address("0x" + one * 40) for one in "abcde")

pytestmark = [pytest.mark.evm, pytest.mark.slow]


@dataclass
class Unwatched:
    """A network of the VSSTask generation, and the account that deploys an oracle for it."""

    network: CrynuxNetwork
    folder: Path
    owner: Address
    payer: Address

    def config(self, oracle: str | None = None) -> str:
        keys = {
            f"{role}_{part}": str(self.folder / f"{role}.{end}")
            for role in ("signer", "transmitter")
            for part, end in (("keystore", "json"), ("password_file", "password"))
        }
        settings: dict[str, dict[str, object]] = {
            **build_settings(self.network, self.folder),
            "keys": {**keys},
        }
        if oracle is not None:
            settings["oracle"] = {"address": oracle}
        path = self.folder / "oracle.toml"
        write_configuration(path, settings, ("dispatch",) if oracle else ("dispatch", "oracle"))
        return str(path)

    @property
    def qos(self) -> str:
        return f"QOS={self.network.contracts['QOS']}"

    @property
    def sent(self) -> int:
        """Return the number of mined transactions of the payer."""
        chain = self.network.chain
        return int(chain.make_request("eth_getTransactionCount", self.payer, "latest"), 16)

    def send(self, to: str, calldata: str) -> None:
        """Send a call from the owner of the network."""
        call = {"from": self.owner, "to": to, "data": calldata, "gas": hex(1_000_000)}
        sent = self.network.chain.make_request("eth_sendTransaction", call)
        receipt = partial(self.network.chain.make_request, "eth_getTransactionReceipt", sent)
        wait_until(receipt, "the receipt")
        assert receipt()["status"] == "0x1"


@pytest.fixture
def unwatched(tmp_path: Path) -> Iterator[Unwatched]:
    with run_anvil(port=0, accounts=ACCOUNTS, start_time=START_TIME) as url:
        chain = LocalChain(url)
        clock = ChainClock(START_TIME)
        try:
            network = deploy_crynux_network(chain, clock, VSS)
            payer = create_keys(tmp_path)["transmitter"].address
            chain.make_request("anvil_setBalance", payer, hex(10 * ETHER))
            chain.make_request("evm_setAutomine", True)
            yield Unwatched(network, tmp_path, network.owner, payer)
        finally:
            chain.close()


def kick_of(node: Address, state: KickState, *, until: int) -> NodeKick:
    """Return a kickout that expelled the node, in the given state."""
    at = Position(1, 0, 0)
    gone = Expulsion(at, round=1, expires_at=until, target=NO_TARGET, tried_in=1, tried_at=at)
    return NodeKick(node, state, expulsion=gone)


def is_expelled(config: Config, node: Address) -> bool:
    """Return whether the configured oracle contract reports the node as expelled."""
    call = {
        "to": get_oracle_address(config),
        "data": encode_call_with_addresses("isExpelled(address)", node),
    }
    with open_checked_chain(config) as chain:
        lines = open_report_account(config, chain).pool_view
        return int(lines.request("eth_call", call, "latest"), 16) == 1


def deploy(unwatched: Unwatched, *options: str, config: str) -> list[str]:
    admin = ["--admin", unwatched.owner, "--dev", "--json"]
    return ["contract", "deploy", *admin, *options, "--config", config]


def behind_a_timelock(unwatched: Unwatched) -> list[str]:
    """Return the command that deploys with a timelock and an adapter."""
    people = [f"--{role}=0x{digit * 40}" for role, digit in (("pauser", "1"), ("vetoer", "2"))]
    people += [f"--signers=0x{'3' * 40},0x{'4' * 40}", "--quorum=2", f"--admin={unwatched.owner}"]
    options = ["--contract", unwatched.qos, "--limit", "kick_below=2000", "--json"]
    return ["contract", "deploy", *people, *options, "--config", unwatched.config()]


def test_adapter_deployed_with_oracle_works_after_role_grant(
    unwatched: Unwatched, capsys: pytest.CaptureFixture[str]
):
    command = deploy(unwatched, "--contract", unwatched.qos, config=unwatched.config())
    assert run([*command, "--yes"]) == 0
    captured = capsys.readouterr()
    landed = json.loads(captured.out)
    assert landed["arguments"]["target"] == landed["adapter"]["address"]
    assert landed["arguments"]["kick_limits"]["kick_gas"] == 3_000_000
    check = ["contract", "check", "--dev", "--json"]
    check += ["--config", unwatched.config(landed["address"])]

    assert run(check) == 2
    before = {finding["subject"] for finding in json.loads(capsys.readouterr().out)}
    (step,) = (line for line in captured.err.splitlines() if "owner of Node calls" in line)
    unwatched.send(*step.split(": ")[-1].split())
    assert run(check) == 0

    assert before == {"owner of Node"}


def test_unknown_kick_target_is_reported_except_in_development(
    unwatched: Unwatched, capsys: pytest.CaptureFixture[str]
):
    unknown = unwatched.network.contracts["Node"].lower()
    command = deploy(unwatched, "--target", unknown, "--yes", config=unwatched.config())
    assert run(command) == 0
    config = unwatched.config(json.loads(capsys.readouterr().out)["address"])
    check = ["contract", "check", "--json", "--config", config]

    assert run(check) == 2
    (named,) = (
        finding
        for finding in json.loads(capsys.readouterr().out)
        if finding["subject"] == "kick target"
    )
    assert named["actual"] == unknown
    assert named["expected"].startswith("a shipped adapter")
    assert run([*check, "--dev"]) == 0


def test_replacement_oracle_deployment_reports_role_handover(
    unwatched: Unwatched, capsys: pytest.CaptureFixture[str]
):
    options = ["--contract", unwatched.qos, "--yes"]
    assert run(deploy(unwatched, *options, config=unwatched.config())) == 0
    first = json.loads(capsys.readouterr().out)
    config = unwatched.config(first["address"])
    # Blocks that were never read may contain an expulsion.
    assert run(["migrate", "--config", config]) == 0
    assert run(deploy(unwatched, *options, "--replace", config=config)) == 2
    assert "the database is empty" in capsys.readouterr().err
    assert run(["run", "--once", "--config", config]) == 0

    capsys.readouterr()
    assert run(deploy(unwatched, *options, "--replace", config=config)) == 0
    captured = capsys.readouterr()
    second = json.loads(captured.out)
    assert f"calls giveBack({second['adapter']['address']})" in captured.err
    assert f'address = "{second["address"]}" in place of {first["address"]}' in captured.err


def test_expelled_nodes_stay_expelled_after_oracle_replacement(
    unwatched: Unwatched, capsys: pytest.CaptureFixture[str]
):
    options = ["--adapter", "none", "--yes"]
    assert run(deploy(unwatched, *options, config=unwatched.config())) == 0
    config = unwatched.config(json.loads(capsys.readouterr().out)["address"])
    assert run(["migrate", "--config", config]) == 0
    assert run(["run", "--once", "--config", config]) == 0
    with open_records(read_config(Path(config))) as records, records.store.transaction() as uow:
        kicks = {
            GONE: kick_of(GONE, KickState.EXPELLED, until=NEVER_EXPIRES),
            REFUSED: kick_of(REFUSED, KickState.REFUSED, until=NEVER_EXPIRES),
            # Its expulsion has ended; those of the other nodes were vetoed or
            # cleared.
            LAPSED: kick_of(LAPSED, KickState.EXPELLED, until=1),
            VETOED: kick_of(VETOED, KickState.VETOED, until=NEVER_EXPIRES),
            READMITTED: kick_of(READMITTED, KickState.READMITTED, until=NEVER_EXPIRES),
        }
        uow.rounds.save_changes(ContractChanges(kicks=kicks))

    capsys.readouterr()
    assert run(deploy(unwatched, *options, "--replace", config=config)) == 0
    second = json.loads(capsys.readouterr().out)
    assert second["arguments"]["expelled"] == [GONE, REFUSED]
    with_second = read_config(Path(unwatched.config(second["address"])))
    assert [is_expelled(with_second, node) for node in kicks] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ([], "VssTaskAdapter: these contract addresses are missing: QOS"),
        (["--contract", "QOS"], "must be NAME=0x…"),
        (
            ["--contract", "Tasks=0x" + "1" * 40],
            "expected one of: Node, QOS, VSSTask",
        ),
        (["--adapter", "Nothing"], "unknown kick target Nothing"),
        (["--adapter", "none", "--contract", "QOS=0x" + "1" * 40], "no adapter is deployed"),
        (["--contract", "QOS=0x" + "1" * 40], "rejects the arguments"),
    ],
)
def test_invalid_adapter_fails_with_one_line_error(
    unwatched: Unwatched, capsys: pytest.CaptureFixture[str], message: list[str], fault: str
):
    assert run(deploy(unwatched, *message, config=unwatched.config())) == 2
    stderr = capsys.readouterr().err
    assert fault in stderr
    assert stderr.count("\n") == 1


def test_fake_timelock_and_pending_admin_are_reported(
    unwatched: Unwatched, capsys: pytest.CaptureFixture[str]
):
    assert run([*behind_a_timelock(unwatched), "--yes"]) == 0
    landed = json.loads(capsys.readouterr().out)
    timelock = landed["timelock"]["address"]
    oracle = landed["address"]
    check = ["contract", "check", "--json", "--config", unwatched.config(oracle)]

    def list_findings() -> set[str]:
        assert run(check) == 2
        return {finding["subject"] for finding in json.loads(capsys.readouterr().out)}

    before = list_findings()
    assert not before & {"code of the timelock", "pending admin"}
    chain = unwatched.network.chain
    chain.make_request("anvil_setBalance", timelock, hex(10 * ETHER))
    chain.make_request("anvil_impersonateAccount", timelock)
    transfer = encode_call("roots/QoSRoots", "transferAdmin", unwatched.owner)
    sent = {"from": timelock, "to": oracle, "data": transfer, "gas": hex(1_000_000)}
    tx_hash = chain.make_request("eth_sendTransaction", sent)
    wait_until(partial(chain.make_request, "eth_getTransactionReceipt", tx_hash), "the receipt")
    assert chain.make_request("eth_getTransactionReceipt", tx_hash)["status"] == "0x1"
    assert list_findings() == before | {"pending admin"}

    # It returns the same delay, but its other behaviour is unknown.
    code = chain.make_request("eth_getCode", timelock, "latest")
    chain.make_request("anvil_setCode", timelock, code + "00")
    assert list_findings() == before | {"pending admin", "code of the timelock"}


def test_additional_timelock_proposers_are_reported(
    unwatched: Unwatched, capsys: pytest.CaptureFixture[str]
):
    assert run([*behind_a_timelock(unwatched), "--yes"]) == 0
    landed = json.loads(capsys.readouterr().out)
    timelock = landed["timelock"]["address"]
    stranger = "0x" + "5" * 40
    check = ["contract", "check", "--json", "--config", unwatched.config(landed["address"])]

    def list_findings(*options: str) -> dict[str, str]:
        assert run([*check, *options]) == 2
        named = {
            finding["subject"]: finding["actual"]
            for finding in json.loads(capsys.readouterr().out)
        }
        return {what: who for what, who in named.items() if "the timelock" in what}

    def run_through_timelock(call: TimelockedCall) -> None:
        unwatched.send(timelock, call.encode_schedule_call(DEFAULT_DELAY))
        unwatched.network.chain.make_request("evm_increaseTime", DEFAULT_DELAY)
        unwatched.send(timelock, call.encode_execute_call())

    assert set(list_findings()) == {"canceller of the timelock"}
    run_through_timelock(build_grant_canceller_call(timelock, landed["address"]))
    assert list_findings() == {}
    grant = encode_call(TIMELOCK, "grantRole", ROLE_ID_BY_NAME["proposer"], stranger)
    run_through_timelock(TimelockedCall(timelock, grant))
    both = sorted([unwatched.owner, stranger])
    assert list_findings() == {"proposers of the timelock": ", ".join(both)}
    assert list_findings("--proposers", unwatched.owner) == {"proposer of the timelock": stranger}
    assert list_findings("--proposers", ",".join(both)) == {}


def test_deployment_without_required_address_sends_nothing(
    unwatched: Unwatched, capsys: pytest.CaptureFixture[str]
):
    staking = f"NodeStaking={unwatched.network.contracts['Node']}"
    options = ["--adapter", "NodeStakingAdapter", "--contract", staking]
    options += ["--contract", f"operator={unwatched.owner}", "--yes"]

    assert run(deploy(unwatched, *options, config=unwatched.config())) == 2
    captured = capsys.readouterr()
    assert "the address of ParameterController is missing; use --contract NAME=0x…" in captured.err
    assert captured.err.count("\n") == 1
    assert unwatched.sent == 0


def test_deployment_with_insufficient_funds_sends_nothing(
    unwatched: Unwatched, capsys: pytest.CaptureFixture[str]
):
    command = behind_a_timelock(unwatched)
    assert run([*command, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)
    cost = int(planned["max_cost_wei"])
    unwatched.network.chain.make_request("anvil_setBalance", unwatched.payer, hex(cost - 1))

    assert run([*command, "--yes"]) == 2

    gas = sum(
        deployment["gas_limit"]
        for deployment in (planned, planned["timelock"], planned["adapter"])
    )
    assert cost == gas * int(planned["max_fee_per_gas_wei"])
    assert (
        f"balance of {cost - 1} wei is too low; the deployment may cost up to {cost} wei"
        in capsys.readouterr().err
    )
    assert unwatched.sent == 0


def test_deployment_without_adapter_has_zero_kick_target(
    unwatched: Unwatched, capsys: pytest.CaptureFixture[str]
):
    assert run(deploy(unwatched, "--adapter", "none", "--dry-run", config=unwatched.config())) == 0
    planned: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert planned["arguments"]["target"] == "0x" + "0" * 40
    assert planned["adapter"] is None
