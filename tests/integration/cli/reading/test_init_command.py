"""`init`: an endpoint and an address are enough for a configuration with which a daemon runs."""

import io
import json
import stat
import tomllib
from pathlib import Path

import pytest

from oracle.cli.main import run
from oracle.cli.setup.network_survey import propose_finality
from tests.support.cli.local_network import LocalNetwork
from tests.support.cli.refusal import run_refused_command
from tests.support.sending import faults
from tests.support.sending.proxy import Proxy, run_proxy

pytestmark = pytest.mark.evm
Capture = pytest.CaptureFixture[str]


def init_arguments(network: LocalNetwork, folder: Path) -> list[str]:
    """Return every flag that it needs."""
    contract = f"TaskNetwork={network.stage.network}"
    return [
        *("init", "--yes", "--config", str(folder / "config.toml"), "--endpoint", network.url),
        *("--contract", contract, "--database", f"sqlite:///{folder / 'oracle.sqlite'}"),
    ]


def first_block_with_code(network: LocalNetwork) -> int:
    """Return the first block with the contract's code, by checking every block."""
    address, ask = network.stage.network, network.stage.chain.make_request
    return next(
        block
        for block in range(network.head() + 1)
        if ask("eth_getCode", address, hex(block)) != "0x"
    )


def test_configuration_written_by_init_indexes_the_whole_network(
    network: LocalNetwork, tmp_path: Path, capsys: Capture
):
    assert run(init_arguments(network, tmp_path)) == 0
    written = capsys.readouterr()
    assert "fit" in written.err
    assert "Next:" in written.out
    path = tmp_path / "config.toml"
    assert run(["run", "--once", "--json", "--config", str(path)]) == 0
    reached = json.loads(capsys.readouterr().out)
    assert (reached["folded"]["block"], reached["publishing"]) == (network.head(), False)
    assert run(["nodes", "--json", "--config", str(path)]) == 0
    assert len(json.loads(capsys.readouterr().out)["nodes"]) == 12


def test_start_block_and_finality_are_detected(network: LocalNetwork, tmp_path: Path):
    assert run(init_arguments(network, tmp_path)) == 0
    path = tmp_path / "config.toml"
    chain = tomllib.loads(path.read_text("utf-8"))["chain"]
    assert (chain["id"], chain["endpoints"]) == (31337, [network.url])
    assert chain["start_block"] == first_block_with_code(network)
    # Anvil has a websocket at the same address.
    assert chain["websocket"] == network.url.replace("http", "ws", 1)
    # Anvil reports finality itself.
    assert (chain["finality_depth"], chain["finality_seconds"]) == (12, 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_init_prompts_for_missing_options(
    network: LocalNetwork, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
):
    answers = [network.url, "", network.stage.network, network.stage.oracle]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))
    assert run(["init", "--dry-run", "--config", str(tmp_path / "config.toml")]) == 0
    written = tomllib.loads(capsys.readouterr().out)
    assert written["network"]["profile"] == "reference"
    assert written["network"]["contracts"] == {"TaskNetwork": network.stage.network.lower()}
    assert written["oracle"]["address"] == network.stage.oracle.lower()
    assert not (tmp_path / "config.toml").exists()


def without_states_below(endpoint_proxy: Proxy, block: int) -> None:
    """Let an endpoint lack the state below a block, like a pruned node."""
    endpoint_proxy.rule(
        "eth_getCode",
        faults.return_error("missing trie node"),
        when=lambda request: (
            request["params"][1] != "latest" and int(request["params"][1], 16) < block
        ),
    )


def test_init_prompts_for_start_block_without_historical_state(
    network: LocalNetwork, tmp_path: Path, capsys: Capture
):
    with run_proxy(network.url) as endpoint_proxy:
        without_states_below(endpoint_proxy, network.head() - 5)
        pruned = [
            endpoint_proxy.url if argument == network.url else argument
            for argument in init_arguments(network, tmp_path)
        ]
        assert run([*pruned, "--dry-run"]) == 0
    written = capsys.readouterr().out
    # The proxy serves no websocket.
    assert "websocket" not in tomllib.loads(written)["chain"]
    assert tomllib.loads(written)["chain"]["start_block"] == 0
    assert "set it here" in written


def test_one_endpoint_with_historical_state_detects_the_start_block(
    network: LocalNetwork, tmp_path: Path, capsys: Capture
):
    with run_proxy(network.url) as endpoint_proxy:
        without_states_below(endpoint_proxy, network.head() - 5)
        flags = init_arguments(network, tmp_path)
        place = flags.index("--endpoint")
        flags[place:place] = ["--endpoint", endpoint_proxy.url]
        assert run([*flags, "--dry-run"]) == 0
    written = capsys.readouterr().out
    assert f"start_block = {first_block_with_code(network)}\n" in written


def test_init_does_not_overwrite_an_existing_configuration(
    network: LocalNetwork, tmp_path: Path, capsys: Capture
):
    (tmp_path / "config.toml").write_text("mine", "utf-8")
    assert "already exists" in run_refused_command(capsys, *init_arguments(network, tmp_path))
    assert (tmp_path / "config.toml").read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (
            ["--contract", "Other=0x" + "1" * 40],
            "not in profile reference; expected one of: TaskNetwork",
        ),
        (["--contract", "TaskNetwork=0x" + "1" * 40], "no contract at this address"),
        (["--profile", "nobody"], "unknown profile 'nobody'"),
    ],
)
def test_init_rejects_invalid_options_before_writing_files(
    network: LocalNetwork, tmp_path: Path, capsys: Capture, changed: list[str], why: str
):
    assert run([*init_arguments(network, tmp_path), *changed]) == 2
    # Earlier findings are printed above it.
    assert why in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "config.toml").exists()


def test_missing_option_is_rejected_if_yes_is_given(tmp_path: Path, capsys: Capture):
    message = run_refused_command(capsys, "init", "--yes", "--config", tmp_path / "config.toml")
    assert message == "qos-oracle: --endpoint: required with --yes"


def test_unreachable_endpoint_causes_a_transient_error(tmp_path: Path, capsys: Capture):
    gone = ["--endpoint", "http://127.0.0.1:1", "--contract", "TaskNetwork=0x" + "1" * 40]
    path = tmp_path / "config.toml"
    assert "no endpoint responds" in run_refused_command(
        capsys, "init", "--yes", "--config", path, *gone, code=1
    )


@pytest.mark.parametrize(
    ("block_seconds", "tags", "proposed"),
    [
        (12.0, {"safe", "finalized"}, (12, 0)),
        (12.0, set(), (64, 0)),
        (2.0, {"safe"}, (64, 768)),
        (0.25, {"finalized"}, (12, 0)),
    ],
)
def test_init_suggests_finality_from_tags_and_block_time(
    block_seconds: float, tags: set[str], proposed: tuple[int, int]
):
    finality, _ = propose_finality(block_seconds, tags)
    assert (finality.depth, finality.seconds) == proposed
