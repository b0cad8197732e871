"""Builds the OpenAPI description from which the clients' types are generated."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from unittest.mock import MagicMock

from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.read_api import create_read_api
from oracle.queries.api.records.event_feed import FeedEvent
from oracle.queries.api.source import ApiSource

SCHEMA_REFERENCE = "#/components/schemas/"


def build_openapi_description() -> dict[str, Any]:
    """Build the OpenAPI description of the read API, with the events of `/v1/events`.

    OpenAPI has no way to describe the events of a stream, so their schema is added. Titles and
    examples are removed, because generators would repeat them as comments.
    """
    # The schema needs no data, so a mock source is enough to enable every optional route.
    openapi_document = create_read_api(MagicMock(ApiSource), streams=ApiSection()).openapi()
    event_schema = FeedEvent.model_json_schema(ref_template=SCHEMA_REFERENCE + "{model}")
    openapi_document["components"]["schemas"]["FeedEvent"] = event_schema
    schemas = openapi_document["components"]["schemas"]
    openapi_document["components"]["schemas"] = {
        name: _remove_titles_and_examples(schema) for name, schema in schemas.items()
    }
    return openapi_document


def _remove_titles_and_examples(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without titles and examples, also in its fields."""
    kept_entries = {
        key: value for key, value in schema.items() if key not in ("title", "examples")
    }
    properties = schema.get("properties", {})
    if properties:
        kept_entries["properties"] = {
            name: _remove_titles_and_examples(field) for name, field in properties.items()
        }
    return kept_entries


def compute_digest(description: dict[str, Any]) -> str:
    """Compute the SHA-256 of a description.

    Generated files contain this digest.
    """
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()
