"""Every target installs what it needs: after ./demo alone, no target lacks a module."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
# These install by themselves, or run a program that every machine has.
WITHOUT_TOOLS = {"help", "demo", "check", "clean"}


def test_every_tool_target_depends_on_tools():
    targets = set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))
    lines = re.findall(r"^([a-z -]+): tools$", MAKEFILE, re.MULTILINE)
    assert targets - WITHOUT_TOOLS == {name for line in lines for name in line.split()}


def test_environments_are_created_only_by_bootstrap():
    """Bootstrap installs each package by its hash, and a failure leaves the old environment."""
    assert not re.search(r"-m venv|--requirement|install .*-r ", MAKEFILE)
