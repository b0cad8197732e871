"""Commands with their output, as pages of the documentation show them."""

import re
from pathlib import Path

_SHOWN = re.compile(
    r"^```\n\$ qos-oracle ((?:[^\n]*\\\n)*[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def list_shown_commands(page: Path) -> list[tuple[str, str]]:
    """Return each command of a page with the output that follows it."""
    return _SHOWN.findall(page.read_text(encoding="utf-8"))


def remove_rule_set_version(output: str) -> str:
    """Return the output without the version of its rule set, which no page has to follow."""
    return re.sub(r"^(policy \S+) \(version \d+\)", r"\1", output, flags=re.MULTILINE)
