"""The worked example of docs/how-to/add-a-network.md is a valid profile
with the described effect.
"""

import json
import re
from pathlib import Path

from oracle.chain.profiles.profile_loader import load_profile
from oracle.domain.scoring.missing_signals import describe_missing_event_types
from oracle.systems.crynux.crynux_rule_sets import CRYNUX

PAGE = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "add-a-network.md"
EXPELLED = {
    "type": "event",
    "name": "WorkerExpelled",
    "inputs": [{"name": "worker", "type": "address", "indexed": True}],
}


def example() -> str:
    """Return the largest TOML block of the page."""
    blocks: list[str] = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return max(blocks, key=len)


def test_documented_example_profile_is_valid(tmp_path: Path):
    (tmp_path / "abi").mkdir()
    (tmp_path / "abi" / "Workers.json").write_text(json.dumps({"abi": [EXPELLED]}))
    (tmp_path / "ours.toml").write_text(example())

    profile = load_profile(str(tmp_path / "ours.toml"))

    assert profile.reads_calls
    assert profile.contracts["Jobs"].start_block == 1200
    (loss,) = describe_missing_event_types(profile.event_types, CRYNUX)
    assert loss in PAGE.read_text("utf-8")


def test_every_shipped_profile_is_listed_in_docs():
    listed = re.findall(r"^\| `([\w-]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)

    assert {"reference", "crynux-vss", "crynux-commit"} <= set(listed)
