"""Answers as a program reads them."""

from typing import Any

from oracle.queries.explain import Explanation
from oracle.queries.explanation_view import build_explanation_view


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """Return what `explain --json` prints."""
    return build_explanation_view(explanation, {}).model_dump(mode="json")
