"""Identifies the source code of the picture, so that a test detects an old picture."""

import hashlib
from pathlib import Path

from oracle.store.state.rule_set_repository import identify_rules
from oracle.systems.crynux.crynux_rule_sets import CRYNUX

_ROOT = Path(__file__).resolve().parents[3]
# Files that determine what is visible on the screen.
_VISIBLE_SOURCES = (
    "devnet/demo/screen.py",
    "devnet/demo/phases.py",
    "devnet/demo/news.py",
    "devnet/demo/demo_nodes.py",
    "devnet/commands/demo_verdict.py",
)


def hash_sources() -> str:
    """Hash the code and the rules that determine the picture."""
    digest = hashlib.sha256()
    for name in _VISIBLE_SOURCES:
        digest.update((_ROOT / name).read_bytes())
    digest.update(identify_rules(CRYNUX).sha256.encode())
    return digest.hexdigest()
