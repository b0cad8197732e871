"""The first lines of `status`: what has stopped and why, or that nothing has."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oracle.cli.main import run
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import JobLiveness
from oracle.domain.blocks import BlockRef, Position
from oracle.domain.health import Condition, HealthReport, Severity
from oracle.domain.ids import ZERO_HASH, Address
from oracle.domain.reports.node_kicks import Accusation, KickState, NodeKick
from oracle.domain.reports.report import ReportSettings
from oracle.queries.answers import BlockView
from oracle.queries.contract_view import ChainView
from oracle.queries.health import OLD_HEAD_SECONDS, list_chain_findings
from oracle.queries.kickout_models import build_node_kickout
from oracle.queries.status import add_chain_view, build_waiting_push
from oracle.queries.status_models import OperatorStatus, SenderView, build_operator_health
from oracle.queries.text.status_text import format_progress_lines
from oracle.store.outbox.records import Account
from oracle.telemetry.outbox_counts import ContractStatus, HotSetLag, OutboxStatistics
from tests.support.cli.local_network import run_local_network, write_config
from tests.unit.cli.test_outbox_words import LIVE_PUSH

SETTINGS = ReportSettings(heartbeat_seconds=100)
ME = Account(1, Address("0x" + 40 * "a"))


def block(number: int, time: int = 5_000) -> BlockRef:
    return BlockRef(number, ZERO_HASH, ZERO_HASH, time)


SENDER = SenderView(address=ME.address, paused=None, reason=None)
NOT_READ = ChainView(None)
WELL = OperatorStatus(
    version="0",
    chain_id=1,
    start_block=0,
    round=6,
    round_age_seconds=7,
    outbox=[],
    reports_held=0,
    kickouts_due=0,
    tasks_waiting=0,
    draws_standing=0,
    levels={},
    dead_letters=0,
    anomalies=0,
    last_reorg=None,
    health=build_operator_health(HealthReport()),
    catching_up=None,
    halts=[],
    rules=None,
    folded=BlockView(**block(90)._asdict()),
    final=80,
    head=None,
    head_time=None,
    lag_blocks=None,
    contract=NOT_READ.build_contract_view(),
    senders=[SENDER],
    held=[],
    unproven=[],
    state_mismatch=None,
    push_waits=None,
    kickouts_accused=[],
    kickouts_refused=0,
    endpoints=[],
    endpoints_proven_wrong={},
    suspect_blocks=0,
    refused=None,
    feed=None,
    nodes={},
    reports=[],
    oldest_draw_block=None,
    dispatcher=None,
    lease="run on host, process 7",
)
OPEN = ContractStatus(7, 4_900, 1, 4_999, kicks_paused=False, kick_tokens=1)
SEEN = ChainView(block(91), OPEN)
NODE = Address("0x" + 40 * "b")


def build_accused(node: Address, ready_at: int) -> NodeKick:
    """Return an accusation that may be executed from `ready_at` on."""
    accusation = Accusation(Position(1, 1, 1), 6, 4_000, ready_at, ZERO_HASH)
    return NodeKick(node, KickState.ACCUSED, accusation)


def lines(
    status: OperatorStatus = WELL, chain: ChainView = SEEN, now: int = 5_060
) -> dict[str, str]:
    status = add_chain_view(status, chain)
    return dict(format_progress_lines(status, SETTINGS.heartbeat_seconds, now))


def test_status_of_a_healthy_daemon_reports_no_problem():
    text_by_label = lines()
    assert list(text_by_label) == [
        *("index", "last report", "contract", "sender", "kickouts", "leader")
    ]
    assert text_by_label["index"].endswith("; 1 block behind the newest, 91")
    assert text_by_label["last report"].startswith(
        "round 7, 1 min old (on chain; by the clock 2 min ago)"
    )
    assert text_by_label["contract"] == "accepts reports"
    assert text_by_label["sender"] == f"{ME.address} may send"
    assert text_by_label["leader"] == "run on host, process 7"


PAUSED = replace(OPEN, paused_until=5_060)


def find_conditions(chain: ChainView = SEEN, now: int = 5_060) -> dict[Condition, str]:
    status = add_chain_view(WELL, chain)
    return dict(list_chain_findings(status, chain, SETTINGS.heartbeat_seconds, now))


@pytest.mark.parametrize(
    ("chain", "condition", "detail"),
    [
        (ChainView(block(101), OPEN), Condition.BEHIND, "11 blocks behind the newest, 101"),
        (
            ChainView(block(91, 5_051), OPEN),
            Condition.REPORT_LATE,
            "is 2 min old; a report is due",
        ),
        (ChainView(block(91), PAUSED), Condition.PAUSED, "accepts no report until 5060"),
        (
            ChainView(block(91), replace(OPEN, kicks_paused=True)),
            Condition.PAUSED,
            "paused kickouts",
        ),
        (
            ChainView(None, unknown_reason="a.example: did not answer"),
            Condition.NO_ENDPOINT,
            "a.example",
        ),
    ],
)
def test_problem_seen_on_chain_is_reported_without_a_running_daemon(
    chain: ChainView, condition: Condition, detail: str
):
    findings = find_conditions(chain=chain)
    assert list(findings) == [condition]
    assert detail in findings[condition]


@pytest.mark.parametrize("chain", [ChainView(block(100), OPEN), ChainView(block(91, 5_050), OPEN)])
def test_contract_values_within_bounds_are_not_reported(chain: ChainView):
    assert find_conditions(chain=chain) == {}


def test_status_without_an_endpoint_shows_an_unknown_head():
    text_by_label = lines(chain=ChainView(None, unknown_reason="a.example: did not answer"))
    assert text_by_label["index"].startswith("folded to block 90, ")
    assert text_by_label["index"].endswith("the lag is unknown: a.example: did not answer")
    assert text_by_label["last report"].startswith(
        "round 6, 7 s old (as folded; by the clock 67 s ago)"
    )
    assert text_by_label["contract"] == "unknown: a.example: did not answer"


def test_status_of_empty_database_shows_no_block_and_no_round():
    new = WELL.model_copy(
        update={"round": None, "round_age_seconds": None, "folded": None, "senders": []}
    )
    fresh = ChainView(block(91), replace(OPEN, round=0, pushed_at=0))
    text_by_label = lines(new, fresh)
    assert text_by_label["index"].startswith("no block is folded yet; run `qos-oracle run")
    assert text_by_label["last report"] == "no round was accepted yet (on chain)"
    assert text_by_label["sender"] == "none has sent anything from this database yet"


def test_status_shows_why_the_next_push_waits():
    push = build_waiting_push(replace(LIVE_PUSH, error_text="gas is expensive"))
    assert lines(WELL.model_copy(update={"push_waits": push}))["push waits"].startswith(
        "gas is expensive; `qos-oracle"
    )
    assert build_waiting_push(LIVE_PUSH) is None


@pytest.mark.parametrize(("ready_at", "state"), [(5_000, "ready since"), (5_001, "ready at")])
def test_status_shows_kickout_counts_and_next_execution(ready_at: int, state: str):
    kicks = (build_accused(Address("0x" + 40 * "c"), 9_000), build_accused(NODE, ready_at))
    accused = [build_node_kickout(kick) for kick in kicks]
    status = WELL.model_copy(update={"kickouts_due": 3, "kickouts_accused": accused})
    kickouts_line = lines(status)["kickouts"]
    assert kickouts_line.startswith(f"3 due, 2 accused, the first {NODE}, {state} 1970-01-01")


@pytest.mark.slow
@pytest.mark.evm
def test_paused_contract_and_unreachable_endpoints_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with run_local_network(tmp_path) as network:
        stage = network.stage
        admin = network.stage.chain.make_request("eth_accounts")[0]
        config = network.settings(tmp_path)
        path = str(write_config(config, tmp_path / "config.toml"))
        assert run(["run", "--once", "--config", path]) == 0
        pause = stage.build_transaction(admin, "roots/QoSRoots", "pauseFor", 600)
        stage.chain.mine_and_check_receipts(network.clock.advance(), [pause])
        status, text = _run_status(path, capsys)
        until = status["contract"]["paused_until"]
        assert until == network.clock.now + 600
        assert "the contract accepts no report until 2027-" in text
        assert "for 10 min of chain time" in text
        assert (status["head"], status["lag_blocks"]) == (network.head(), 1)
    status, text = _run_status(path, capsys)
    assert (status["head"], status["lag_blocks"], status["contract"]["round"]) == (
        None,
        None,
        None,
    )
    assert status["contract"]["unknown"] is not None
    assert "the lag is unknown: " in text
    assert status["health"]["status"] == "down"
    assert status["health"]["conditions"] == ["no_leader", "no_endpoint"]


def _run_status(path: str, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    capsys.readouterr()
    code = run(["status", "--config", path, "--json"])
    status = json.loads(capsys.readouterr().out)
    assert (
        run(["status", "--config", path]) == code == Severity[status["health"]["status"].upper()]
    )
    return status, capsys.readouterr().out


def test_status_without_a_daemon_reports_an_outdated_head():
    assert find_conditions(now=5_000 + OLD_HEAD_SECONDS) == {}
    assert "is 2 h old" in find_conditions(now=5_000 + 7_200)[Condition.OLD_HEAD]
    assert "2 h ago" in lines(now=5_000 + 7_200)["index"]


def test_chain_head_ahead_of_the_local_clock_is_accepted():
    assert "ahead of this machine's clock" in lines(now=1_000)["index"]
    assert find_conditions(now=1_000) == {}


@pytest.mark.parametrize(
    ("lag", "text"),
    [
        (HotSetLag(0, 0), "as of the last round"),
        (HotSetLag(3, 7), "3 rounds behind, 7 words left to bring"),
        (HotSetLag(1, 1), "1 round behind, 1 word left to bring"),
    ],
)
def test_status_shows_the_lag_of_the_hot_set(lag: HotSetLag, text: str):
    assert lines(chain=ChainView(block(91), replace(OPEN, hot_set_lag=lag)))["hot set"] == text
    assert "hot set" not in lines()


def test_daemon_health_returns_the_last_contract_state():
    watch = DaemonHealth(JobLiveness(lambda: 0.0))
    assert watch.chain_view.build_contract_view().unknown == "not checked by this process yet"
    watch.record_contract_state(OutboxStatistics(contract=PAUSED))
    assert watch.contract == PAUSED
    watch.record_contract_state(OutboxStatistics())
    assert watch.contract is None
