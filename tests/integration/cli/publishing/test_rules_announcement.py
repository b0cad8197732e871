"""`rules announce` and the timelock of a real chain: announced, cancelled, and in force."""

import json
from pathlib import Path
from typing import Any

import pytest

from devnet.demo.stage import GAS, TIMELOCK_DELAY
from oracle.bindings.codec import encode_call
from oracle.bindings.qos_roots import CONTRACT
from oracle.cli.main import run
from oracle.cli.options import load_config
from oracle.daemon.config.loader import Config
from oracle.daemon.rules_previews import start_preview_worker
from tests.support.cli.local_network import LocalNetwork, Settings, run_local_network, write_config

REASON, LINK = "Shorter memory.", "https://example.org/42"


@pytest.fixture
def network(tmp_path: Path):
    (tmp_path / "keys").mkdir()
    with run_local_network(tmp_path / "keys") as started:
        started.play(1)
        yield started


@pytest.fixture
def settings(network: LocalNetwork, tmp_path: Path) -> Settings:
    settings = network.settings(tmp_path)
    settings["oracle"]["timelock"] = network.stage.timelock
    settings["rules"] = {"set": "crynux", "announced_folder": str(tmp_path / "announced")}
    return settings


class Announcing:
    """An operator who announces a smaller tau, and reads the history of the rules."""

    def __init__(
        self, network: LocalNetwork, config: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.network, self.config, self._capfd = network, config, capfd
        self.file = config.parent / "mine.json"

    def run_json(self, *arguments: str) -> Any:
        assert run([*arguments, "--config", str(self.config), "--json"]) == 0
        return json.loads(self._capfd.readouterr().out)

    def announce(self) -> Any:
        return self.run_json(*self.write_rules_to_announce())

    def write_rules_to_announce(self) -> list[str]:
        """Write changed rules to the file, and return the arguments that announce them."""
        changed = ["rules", "show", "crynux", "--set", "tau_seconds=900", "--json"]
        assert run(changed) == 0
        self.file.write_text(self._capfd.readouterr().out, "utf-8")
        return ["rules", "announce", str(self.file), "--reason", REASON, "--link", LINK]

    def send_to_timelock(self, calldata: str) -> None:
        self.send(self.network.stage.timelock, calldata)

    def cancel(self, announced: dict[str, Any]) -> None:
        """Cancel as the vetoer, through the oracle contract."""
        operation = bytes.fromhex(announced["call"]["operation"][2:])
        calldata = encode_call(CONTRACT, "cancelOperation", operation)
        self.send(self.network.stage.oracle, calldata)

    def send(self, contract: str, calldata: str) -> None:
        """Send a call of the account that is proposer and vetoer."""
        stage = self.network.stage
        sender = str(stage.chain.make_request("eth_accounts")[0])
        call = {"from": sender, "to": contract, "gas": GAS, "data": calldata}
        stage.chain.mine_and_check_receipts(self.network.clock.advance(), [call])
        self.network.mine(6)

    def read_history(self) -> Any:
        assert run(["run", "--once", "--config", str(self.config)]) == 0
        self._capfd.readouterr()
        return self.run_json("rules", "history")


@pytest.fixture
def operator(network, settings, tmp_path, capfd) -> Announcing:
    return Announcing(network, write_config(settings, tmp_path / "config.toml"), capfd)


def test_announced_rules_are_listed_before_and_after_execution(operator):
    announced = operator.announce()
    operator.send_to_timelock(announced["call"]["schedule"])

    history = operator.read_history()

    change, deployed = history["changes"]
    assert history["in_force"] == deployed["rules_hash"] != change["rules_hash"]
    assert change["rules_hash"] == announced["rules_hash"]
    assert (change["state"], change["reason"]) == ("scheduled", f"{REASON} {LINK}")
    assert change["ready_at"] == change["scheduled_time"] + TIMELOCK_DELAY
    assert change["operation"] == announced["call"]["operation"]
    assert [difference["name"] for difference in change["differences"]] == ["tau_seconds"]

    operator.network.clock.now += TIMELOCK_DELAY
    operator.send_to_timelock(announced["call"]["execute"])
    history = operator.read_history()

    assert len(history["changes"]) == 2
    assert (history["in_force"], history["changes"][0]["state"]) == (change["rules_hash"], "set")


def test_cancelled_rules_do_not_take_effect(operator):
    announced = operator.announce()
    operator.send_to_timelock(announced["call"]["schedule"])
    operator.cancel(announced)

    assert operator.read_history()["changes"][0]["state"] == "cancelled"


def test_timelock_added_later_is_indexed_from_the_start_block(operator, settings, tmp_path):
    announced = operator.announce()
    operator.send_to_timelock(announced["call"]["schedule"])
    del settings["oracle"]["timelock"]
    write_config(settings, operator.config)
    (deployed,) = operator.read_history()["changes"]

    settings["oracle"]["timelock"] = operator.network.stage.timelock
    write_config(settings, operator.config)
    newest, oldest = operator.read_history()["changes"]

    assert (newest["state"], newest["rules_hash"]) == ("scheduled", announced["rules_hash"])
    assert oldest == deployed


def test_announcement_is_reindexed_after_a_rewind(operator):
    before = operator.network.head()
    announced = operator.announce()
    operator.send_to_timelock(announced["call"]["schedule"])
    history = operator.read_history()
    config = ["--config", str(operator.config)]

    assert run(["resync", "rewind", "--to-block", str(before), *config]) == 0
    operator._capfd.readouterr()
    assert len(operator.run_json("rules", "history")["changes"]) == 1
    assert operator.read_history()["changes"] == history["changes"]
    assert run(["resync", "rebuild", *config]) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"timelock": None}, "oracle.timelock: not set, but the contract's admin is"),
        ({"timelock": "0x" + "9" * 40}, "there is no contract"),
    ],
)
def test_announcement_of_an_unindexed_timelock_is_rejected(
    network, settings, tmp_path, capfd, change, message
):
    settings["oracle"] |= change
    if change["timelock"] is None:
        del settings["oracle"]["timelock"]
    path = write_config(settings, tmp_path / "config.toml")
    operator = Announcing(network, path, capfd)
    arguments = operator.write_rules_to_announce()
    assert run([*arguments, "--config", str(path)]) == 2
    stderr = capfd.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1
    assert not (tmp_path / "announced").exists()


def test_announcing_the_configured_rules_is_rejected(operator, capfd):
    assert run(["rules", "show", "crynux", "--json"]) == 0
    operator.file.write_text(capfd.readouterr().out, "utf-8")
    options = ["--reason", REASON, "--config", str(operator.config)]
    assert run(["rules", "announce", str(operator.file), *options]) == 2
    assert "nothing to announce" in capfd.readouterr().err


def test_preview_compares_announced_rules_until_cancellation(operator, tmp_path):
    announced = operator.announce()
    operator.send_to_timelock(announced["call"]["schedule"])
    operator.read_history()

    (preview,) = operator.run_json("rules", "preview")

    assert preview["rules"] == announced["rules_hash"]
    assert preview["ready_at"] > preview["time"]
    assert preview["members"] > 2
    assert len(list((tmp_path / "announced" / "previews").glob("*.json"))) == 1

    operator.cancel(announced)
    operator.read_history()
    assert operator.run_json("rules", "preview") == []
    assert list((tmp_path / "announced" / "previews").glob("*.json")) == []


def test_preview_worker_writes_previews_of_shadow_rule_sets(operator, settings, tmp_path, capfd):
    operator.announce()
    write_config(settings, operator.config)
    shadow_set = f'[[shadow]]\nname = "short-memory"\nrules = "{operator.file.name}"\n'
    operator.config.write_text(operator.config.read_text("utf-8") + shadow_set, "utf-8")
    operator.read_history()
    config = load_config(operator.config)

    assert run_worker(config) == 0

    (preview,) = operator.run_json("rules", "preview")
    assert (preview["rules"], preview["ready_at"]) == ("short-memory", None)

    operator.file.write_text("{}", "utf-8")
    capfd.readouterr()
    assert run_worker(config) == 1
    stderr = capfd.readouterr().err
    assert stderr.startswith("rules preview: shadow.rules: ")
    assert stderr.count("\n") == 1


def run_worker(config: Config) -> int:
    with start_preview_worker(config) as worker:
        return worker.wait(60)
