"""The generated types of the clients are those of the API: `make clients` writes them."""

import pytest

from client_types.__main__ import (
    PYTHON,
    TYPESCRIPT_TYPES,
    format_digest_line,
    generate_python_files,
)
from client_types.description import build_openapi_description
from client_types.python_types import UnknownSchemaError, generate_models

REMEDY = "the description of the API has changed: run `make clients`"


def test_generated_client_types_match_api_schema():
    description = build_openapi_description()
    for name, text in generate_python_files(description).items():
        assert (PYTHON / name).read_text("utf-8") == text, REMEDY
    first_line = TYPESCRIPT_TYPES.read_text("utf-8").partition("\n")[0]
    assert f"{first_line}\n" == format_digest_line(description), REMEDY


def test_schema_with_an_unknown_keyword_is_rejected():
    with pytest.raises(UnknownSchemaError, match="oneOf"):
        generate_models({"Thing": {"oneOf": [{"type": "string"}]}})
