"""The policies in ops/signer match the description on the security page."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_security_page_lists_the_functions_of_the_transmitter_policy():
    policy = json.loads((ROOT / "ops/signer/transmitter-policy.json").read_text("utf-8"))
    functions = [function["name"] for function in policy["transaction"]["functions"]]
    page = (ROOT / "docs/explanation/security.md").read_text("utf-8")
    numbers = {4: "four", 5: "five", 6: "six"}
    listed = ", ".join(f"`{name}`" for name in functions)
    assert f"{numbers[len(functions)]} functions {listed} by selector" in re.sub(r"\s+", " ", page)
