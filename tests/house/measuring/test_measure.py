"""The measures of the codebase, on a tree that is small enough to count by hand."""

from pathlib import Path

import pytest

from tests.house.measuring.measure import measure_rows

FILES = {
    "oracle/rpc/client.py": '''"""Asks."""
def body(method):
    return {"jsonrpc": "2.0", "id": 1, "method": method}
class Name: ...
''',
    "oracle/rpc/pool.py": '''"""As oracle/missing.md says, and decision 7 (docs/there.md)."""
from oracle.rpc.client import Name
def is_late(error):
    return "in time" in str(error) or error.words.endswith("late")
''',
    "oracle/txmgr/sending.py": '''"""Gives a nonce."""
import web3
class Name: ...
def give(senders):
    return exec(senders.allocate_nonce())
''',
    "docs/there.md": "there\n",
    "docs/decisions/0001-a.md": "not a page to read\n" * 1000,
    "pyproject.toml": '"oracle.rpc.a -> oracle.txmgr.b"\n"oracle.rpc.a -> oracle.txmgr.b"\n',
    "tests/mutants/f01-a.patch": "",
}


@pytest.fixture
def measurement(tmp_path: Path) -> dict[str, str | list[str]]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "tests" / "a.py").write_text("", "utf-8")
    return measure_rows(tmp_path)


def test_packages_and_imports_are_counted(measurement):
    assert measurement["files in the largest folder"] == "2 (rpc)"
    assert measurement["imports among files of one room"] == "1 (rpc)"
    assert measurement["arrows that point upward"] == ["oracle.rpc.a -> oracle.txmgr.b"]


def test_duplicates_are_counted(measurement):
    assert measurement["RPC stacks"] == ["rpc/client.py"]
    assert measurement["transaction pipelines"] == ["txmgr/sending.py"]
    assert measurement["public class names used twice"] == ["Name"]
    assert measurement["ABI readers"] == ["web3"]
    assert measurement["files that exec"] == ["txmgr/sending.py"]


def test_decisions_based_on_error_text_are_counted(measurement):
    assert measurement["control by error text of our own"] == 2 * ["rpc/pool.py:4"]


def test_dangling_citation_is_counted(measurement):
    cited = ["oracle/rpc/pool.py: oracle/missing.md", "oracle/rpc/pool.py: decision 7"]
    assert measurement["dangling citations"] == cited


def test_page_count_excludes_decision_records(measurement):
    assert measurement["docs by hand"] == "0 KB in 1 pages"
    assert measurement["mutants"] == ["f01-a"]
