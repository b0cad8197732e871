"""The end of the demo: kickout and contest as recorded on chain, and the summary."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from devnet.anvil import LocalChain
from devnet.demo.cast import DARWIN, HOPELESS
from devnet.demo.stage import GAS, MODEL, STAKE, VERSION, ChainClock, Stage
from devnet.demo.verify import ScoreComparison, ScoreVerification
from oracle.bindings.codec import decode_error_name, encode_call
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address
from oracle.errors import FatalError


@dataclass(frozen=True, slots=True)
class KickoutOnChain:
    """The kickout of the hopeless node as recorded in the chain's logs.

    Amounts are in wei, 0 if nothing was paid.
    """

    executed_in: str | None
    seen_by_network: bool
    withdrawn: int
    rejoin: str

    def list_faults(self) -> list[str]:
        """Return one line per missing part of the kickout."""
        faults = []
        if self.executed_in is None:
            faults.append("no kickout was executed by executeKick")
        elif not self.seen_by_network:
            faults.append("the kickout's transaction has no NodeKickedOut event of the network")
        if self.withdrawn != STAKE:
            faults.append(f"the stake was not withdrawn: {self.withdrawn} of {STAKE} wei")
        if self.rejoin != "KickedOut":
            faults.append(f"the kicked-out node's re-join was not refused: {self.rejoin}")
        return faults


@dataclass(frozen=True, slots=True)
class ContestOnChain:
    """The contest about a false result, as recorded in the chain's logs.

    `second_group`: the nodes that computed the group's tasks again. `slashed`: the slashed part of
    the stake, in wei. `settled_in`: the transaction in which a member settled the contest.
    """

    second_group: list[str]
    slashed: int
    settled_in: str | None

    def list_faults(self) -> list[str]:
        """Return one line per missing part of the contest."""
        faults = []
        if not self.second_group:
            faults.append("the daemon ordered no second group for the contest of the lying node")
        if self.slashed != STAKE:
            faults.append(f"the lying node was not slashed: {self.slashed} of {STAKE} wei")
        return faults


@dataclass(frozen=True, slots=True)
class DrawAgreement:
    """The number of started tasks, and how many of them were started on the drawn node."""

    started: int
    agree: int

    def list_faults(self) -> list[str]:
        """Return one line per fault of the draws."""
        if not self.started:
            return ["no task was started by a draw"]
        mismatch_count = self.started - self.agree
        return (
            [f"{mismatch_count} tasks were started on a node that was not drawn"]
            if mismatch_count
            else []
        )


@dataclass(frozen=True, slots=True)
class ContractReading:
    """The contract's score of one node; `qos` in 1/10,000."""

    name: str
    node: Address
    selectable: bool
    qos: int
    equal: bool


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """The results of the demo; an empty `faults` means that all checks passed.

    `kickout_played` is false if the user ended the demo before the kickout.
    """

    blocks: int
    chain_seconds: int
    rounds: int
    as_of: int
    events: int
    nodes: list[ContractReading]
    draws: DrawAgreement
    kickout: KickoutOnChain
    contest: ContestOnChain
    addresses: dict[str, str]
    faults: list[str] = field(default_factory=list)
    kickout_played: bool = True

    @property
    def has_passed(self) -> bool:
        return not self.faults

    def to_json(self) -> str:
        return json.dumps({"holds": self.has_passed, **asdict(self)}, indent=2)


def withdraw_and_try_rejoin(stage: Stage, clock: ChainClock) -> KickoutOnChain:
    """Let the kicked-out node withdraw and try to join again; return the kickout from the logs."""
    node = stage.nodes[HOPELESS.name]
    executed_logs = _fetch_event_logs(stage.chain, stage.oracle, "QoSOracle", "KickExecuted")
    kicked_out_logs = _fetch_event_logs(stage.chain, stage.network, "TaskNetwork", "NodeKickedOut")
    executed_in = executed_logs[-1]["transactionHash"] if executed_logs else None
    if executed_in is not None:
        stage.chain.mine(clock.advance(), [stage.build_call(node, "TaskNetwork", "withdraw")])
    withdrawn_amounts = [
        int(log["data"], 16)
        for log in _fetch_event_logs(stage.chain, stage.network, "TaskNetwork", "Withdrawn")
        if log["topics"][1].endswith(node[2:])
    ]
    return KickoutOnChain(
        executed_in=executed_in,
        seen_by_network=any(log["transactionHash"] == executed_in for log in kicked_out_logs),
        withdrawn=min(sum(withdrawn_amounts), STAKE),
        rejoin=_simulate_rejoin(stage),
    )


def read_contest(stage: Stage) -> ContestOnChain:
    """Return the contest, its second group and the slashed stake from the chain's logs."""
    liar = stage.nodes[DARWIN.name]
    slash_logs = [
        log
        for log in _fetch_event_logs(stage.chain, stage.network, "TaskNetwork", "NodeSlashed")
        if log["topics"][1].endswith(liar[2:])
    ]
    revalidation_hashes = {
        log["transactionHash"]
        for log in _fetch_event_logs(stage.chain, stage.network, "TaskNetwork", "GroupRevalidates")
    }
    start_logs = _fetch_event_logs(stage.chain, stage.network, "TaskNetwork", "TaskStarted")
    return ContestOnChain(
        second_group=[
            stage.get_node_name(Address("0x" + log["topics"][2][-40:]))
            for log in start_logs
            if log["transactionHash"] in revalidation_hashes
        ],
        slashed=sum(int(log["data"], 16) for log in slash_logs),
        settled_in=slash_logs[0]["transactionHash"] if slash_logs else None,
    )


def verify_draws(configuration: Path) -> DrawAgreement:
    """Verify every draw in a separate process, as anyone can.

    Raises:
        FatalError: the draws could not be verified.
    """
    arguments = ["select", "--verify", "all", "--json", "--config", str(configuration)]
    completed = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-m", "oracle", *arguments], capture_output=True, text=True, check=False
    )
    if not completed.stdout:
        raise FatalError(f"the draws cannot be verified: {completed.stderr.strip()}")
    result = json.loads(completed.stdout)
    return DrawAgreement(result["started"], result["agree"])


def build_summary(
    stage: Stage,
    clock: ChainClock,
    verification: ScoreVerification,
    draws: DrawAgreement,
    chain_results: tuple[KickoutOnChain, ContestOnChain],
) -> DemoSummary:
    """Combine the results about scores, draws, kickout and contest into a summary."""
    kickout, contest = chain_results
    faults = [
        f"{stage.get_node_name(comparison.node)}: the score on chain is {comparison.on_chain}, "
        f"but a replay of the logs gives {comparison.recomputed}"
        for comparison in verification.mismatches
    ]
    return DemoSummary(
        blocks=int(stage.chain.make_request("eth_blockNumber"), 16),
        chain_seconds=clock.now - clock.start,
        rounds=verification.round,
        as_of=verification.as_of,
        events=verification.events,
        nodes=[_build_contract_reading(stage, comparison) for comparison in verification.nodes],
        draws=draws,
        kickout=kickout,
        contest=contest,
        addresses={"chain": stage.chain.url, "network": stage.network, "oracle": stage.oracle},
        faults=faults + draws.list_faults() + kickout.list_faults() + contest.list_faults(),
    )


def _build_contract_reading(stage: Stage, comparison: ScoreComparison) -> ContractReading:
    selectable, qos = comparison.on_chain
    return ContractReading(
        stage.get_node_name(comparison.node), comparison.node, selectable, qos, comparison.is_equal
    )


def _fetch_event_logs(
    chain: LocalChain, address: str, contract: str, event: str
) -> list[dict[str, str]]:
    topic = load_abi(contract).get_event(event).digest
    log_filter = {"address": address, "fromBlock": "0x0", "toBlock": "latest", "topics": [topic]}
    logs: list[dict[str, str]] = chain.make_request("eth_getLogs", log_filter)
    return logs


def _simulate_rejoin(stage: Stage) -> str:
    """Return the name of the error that rejects the re-join, or `accepted`."""
    hardware = (HOPELESS.gpu_name, HOPELESS.gpu_vram, *VERSION, [MODEL])
    call = {
        "from": stage.nodes[HOPELESS.name],
        "to": stage.network,
        "data": encode_call("TaskNetwork", "join", *hardware),
        "value": hex(STAKE),
        "gas": GAS,
    }
    revert_data = stage.chain.get_revert_data(call)
    return "accepted" if revert_data is None else decode_error_name("TaskNetwork", revert_data)
