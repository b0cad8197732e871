"""From what the picture was made: whoever changes how the demo looks has to draw it anew."""

import hashlib
from pathlib import Path

from oracle.store.state.rule_set_repository import identify_rules
from oracle.systems.crynux.crynux_rule_sets import CRYNUX

_ROOT = Path(__file__).resolve().parents[3]
# What is seen: the picture, its words, who plays, and the verdict at the end.
_SEEN = (
    "devnet/demo/screen.py",
    "devnet/demo/acts.py",
    "devnet/demo/news.py",
    "devnet/demo/cast.py",
    "devnet/commands/demo_verdict.py",
)


def made_from() -> str:
    """Return the hash of the code that is seen, and of the rules that make its numbers."""
    digest = hashlib.sha256()
    for name in _SEEN:
        digest.update((_ROOT / name).read_bytes())
    digest.update(identify_rules(CRYNUX).sha256.encode())
    return digest.hexdigest()
