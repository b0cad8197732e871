"""Responses in the form in which programs read them."""

from typing import Any

from oracle.queries.explain import Explanation
from oracle.queries.explanation_view import build_explanation_view


def build_explanation_json(explanation: Explanation) -> dict[str, Any]:
    """Return the JSON object that `explain --json` prints."""
    return build_explanation_view(explanation, {}).model_dump(mode="json")
