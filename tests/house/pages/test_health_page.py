"""docs/explanation/health.md lists every condition as it is declared and
as `/readyz` reports it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from oracle.daemon.daemon_health import READY_WITHIN_FAILURES, READY_WITHIN_SECONDS
from oracle.daemon.index_job import UNCONFIRMED_SECONDS
from oracle.daemon.statistics_jobs import MAX_CLOCK_OFFSET_SECONDS
from oracle.domain.health import Condition
from oracle.queries.contract_view import READY_WITHIN_BLOCKS
from oracle.queries.health import is_report_late
from oracle.txmgr.context import MAX_BLOCKED_SECONDS
from tests.house.product import list_nodes, parse_package, parse_sources

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/explanation/health.md").read_text("utf-8")
ROWS = re.findall(r"^\| `([A-Z-]+)` \| (\w+) \| (.+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
# Modules of the daemon that raise no condition of `/readyz`.
ONLY_METRICS = ("oracle/daemon/health_reporter.py", "oracle/daemon/web/pages")
LIMITS = {
    Condition.NO_ENDPOINT: f"after {READY_WITHIN_SECONDS:.0f} s",
    Condition.BEHIND: f"after {READY_WITHIN_BLOCKS} blocks",
    Condition.WAITING_WITNESS: f"after {UNCONFIRMED_SECONDS:.0f} s",
    Condition.WRONG_CLOCK: f"after {MAX_CLOCK_OFFSET_SECONDS} s",
    Condition.SIMULATION_BLOCKED: f"after {MAX_BLOCKED_SECONDS} s",
    Condition.REPORT_LATE: "after 1.5 heartbeats",
    Condition.STEP_FAILING: f"after {READY_WITHIN_FAILURES} failures in a row",
}


def conditions_in(tree: ast.AST) -> Iterator[Condition]:
    """Yield the conditions that code mentions, such as `Condition.HALTED`."""
    names = Condition.__members__
    for node in list_nodes(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="Condition"), attr=name) if name in names:
                yield Condition[name]


def raised_by_the_process() -> set[Condition]:
    """Return the conditions that the daemon's own code raises, and those of the contract."""
    queries = parse_sources()[ROOT / "oracle/queries/health.py"]
    (contract,) = (
        node
        for node in queries.body
        if isinstance(node, ast.FunctionDef) and node.name == "list_contract_findings"
    )
    trees = [
        tree
        for path, tree in parse_package(ROOT, "oracle/daemon").items()
        if not str(path.relative_to(ROOT)).startswith(ONLY_METRICS)
    ]
    return {condition for tree in (contract, *trees) for condition in conditions_in(tree)}


def test_page_lists_every_condition_as_declared():
    assert [row[:4] for row in ROWS] == [
        (condition.label, condition.severity.name.lower(), condition.title, condition.action)
        for condition in Condition
    ]


def test_page_lists_the_conditions_that_readyz_reports():
    raised = raised_by_the_process()
    expected = {
        condition.label: LIMITS.get(condition, "yes") if condition in raised else "-"
        for condition in Condition
    }
    assert {row[0]: row[4] for row in ROWS} == expected


def test_report_is_late_after_1_5_heartbeats():
    assert not is_report_late(15, 10)
    assert is_report_late(16, 10)


def test_every_declared_health_condition_is_used():
    declared = ROOT / "oracle/domain/health.py"
    raised = {
        condition
        for path, tree in parse_package(ROOT, "oracle").items()
        if path != declared
        for condition in conditions_in(tree)
    }
    assert raised == {*Condition}
