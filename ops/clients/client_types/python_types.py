"""Generates the Python types, as a TypedDict per schema and a method per operation.

The generator knows the keywords that the response models use, and raises an error for any other.
General generators make one module for each schema, or need packages at run time.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from textwrap import indent
from typing import Any

from client_types.description import SCHEMA_REFERENCE

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
# Keywords that restrict or describe values without changing their type.
_WITHOUT_TYPE = {
    *("default", "description", "examples", "maximum", "maxItems", "maxLength", "minimum"),
    *("minItems", "minLength", "pattern", "propertyNames", "title"),
}
_STREAM = "text/event-stream"
_MODELS_HEAD = '''"""The types of responses, made by `make clients`."""

from typing import Any, Literal, NotRequired, TypedDict'''
_OPERATIONS_HEAD = '''"""The operations of the read API, made by `make clients`."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from qos_oracle_client import models

# Method, path, its values, query and body.
Request = Callable[[str, str, Mapping[str, object], Mapping[str, object], object], Any]


class Operations:
    """A method for each operation; the server decides where a parameter is None."""

    def __init__(self, request: Request) -> None:
        """Store the function that sends a request and returns the decoded response."""
        self._request = request'''


class UnknownSchemaError(Exception):
    """Raised if the description uses a keyword that the generator does not know."""


def generate_models(schemas: Mapping[str, Any]) -> str:
    """Generate the module with the types of all schemas."""
    definitions = (
        _format_type_definition(name, schema) for name, schema in sorted(schemas.items())
    )
    return _format_code("\n\n".join((_MODELS_HEAD, *definitions)))


def generate_operations(paths: Mapping[str, Any]) -> str:
    """Generate the module with one method for each operation, except streams."""
    methods = [
        _format_method(method, path, operation)
        for path, operation_by_method in paths.items()
        for method, operation in operation_by_method.items()
        if _STREAM not in get_success_content(operation)
    ]
    return _format_code("\n\n".join((_OPERATIONS_HEAD, *methods)))


def get_success_content(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the content of a successful response of an operation, by media type."""
    status = min(status for status in operation["responses"] if status.startswith("2"))
    content: Mapping[str, Any] = operation["responses"][status]["content"]
    return content


def _format_type_definition(name: str, schema: Mapping[str, Any]) -> str:
    properties = schema.get("properties")
    if properties is None:
        return f"{name} = {_format_type(schema)}"
    field_lines = "\n".join(_iter_field_lines(properties, schema.get("required", ())))
    docstring = _format_docstring(schema, name)
    return f"class {name}(TypedDict):\n{docstring}\n\n{indent(field_lines, '    ')}"


def _iter_field_lines(properties: Mapping[str, Any], required: list[str]) -> Iterator[str]:
    for name, schema in properties.items():
        # A response always contains a field that is required, and a field whose default is not
        # empty.
        is_always_sent = name in required or bool(schema.get("default"))
        field_type = _format_type(schema, "")
        yield f"{name}: {field_type}" if is_always_sent else f"{name}: NotRequired[{field_type}]"
        if description := schema.get("description"):
            yield f'"""{_escape_docstring(description)}"""'


def _format_type(schema: Mapping[str, Any], module: str = "") -> str:
    """Format a schema's type as source code.

    `module` is the prefix of the names of schemas.
    """
    known_keys = {"$ref", "anyOf", "enum", "type", "items", "prefixItems", "additionalProperties"}
    if unknown_keys := schema.keys() - known_keys - _WITHOUT_TYPE - {"properties", "required"}:
        raise UnknownSchemaError(f"unknown keywords {sorted(unknown_keys)} in {schema}")
    if reference := schema.get("$ref"):
        return f'"{module}{reference.removeprefix(SCHEMA_REFERENCE)}"'
    if alternatives := schema.get("anyOf"):
        return _join_types(_format_type(schema, module) for schema in alternatives)
    if values := schema.get("enum"):
        return f"Literal[{', '.join(map(repr, values))}]"
    if schema.get("type") == "array":
        # Decoded JSON contains no tuples, so the type of a tuple is a list.
        items = schema.get("prefixItems") or [schema.get("items", {})]
        return f"list[{_join_types(_format_type(item, module) for item in items)}]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_format_type(values, module) if isinstance(values, dict) else 'Any'}]"
    return _TYPES[schema["type"]] if "type" in schema else "Any"


def _join_types(types: Iterator[str]) -> str:
    """Format a union of types as source code.

    The union is quoted if it names a schema.
    """
    unique_types = [*dict.fromkeys(types)]
    union_type = " | ".join(unique_types).replace('"', "")
    return (
        f'"{union_type}"'
        if len(unique_types) > 1 and '"' in "".join(unique_types)
        else " | ".join(unique_types)
    )


def _format_method(method: str, path: str, operation: Mapping[str, Any]) -> str:
    ((media_type, content), *_) = get_success_content(operation).items()
    return_type = (
        "bytes" if media_type == "application/octet-stream" else _format_model_type(content)
    )
    parameters = [
        parameter for parameter in operation.get("parameters", ()) if parameter["in"] != "header"
    ]
    path_parameters = [parameter["name"] for parameter in parameters if parameter["in"] == "path"]
    query_parameters = [
        parameter["name"] for parameter in parameters if parameter["in"] == "query"
    ]
    body = operation.get("requestBody")
    parameter_texts = [
        "self",
        *(_format_parameter(parameter) for parameter in parameters if parameter["in"] == "path"),
        *([f"body: {_format_model_type(body['content']['application/json'])}"] if body else ()),
        *(["*"] if query_parameters else ()),
        *(
            f"{_format_parameter(parameter)} = None"
            for parameter in parameters
            if parameter["in"] == "query"
        ),
    ]
    call_arguments = [
        repr(method.upper()),
        repr(path),
        _format_mapping(path_parameters),
        _format_mapping(query_parameters),
        "body" if body else "None",
    ]
    return indent(
        f"def {operation['operationId']}({', '.join(parameter_texts)}) -> {return_type}:\n"
        f"{_format_docstring(operation, operation['operationId'])}\n"
        f"    response: {return_type} = self._request({', '.join(call_arguments)})\n"
        "    return response\n",
        "    ",
    )


def _format_model_type(content: Mapping[str, Any]) -> str:
    return _format_type(content["schema"], "models.").replace('"', "")


def _format_parameter(parameter: Mapping[str, Any]) -> str:
    schema = parameter["schema"]
    is_optional = parameter["in"] == "query" and {"type": "null"} not in schema.get("anyOf", ())
    return f"{parameter['name']}: {_format_type(schema)}{' | None' if is_optional else ''}"


def _format_mapping(names: list[str]) -> str:
    return "{" + ", ".join(f'"{name}": {name}' for name in names) + "}"


def _format_docstring(schema: Mapping[str, Any], name: str) -> str:
    text = _escape_docstring(schema.get("description", name))
    return indent(f'"""{text}"""', "    ")


def _escape_docstring(text: str) -> str:
    """Escape the backslashes of a docstring.

    A text of several lines is ended with a line break.
    """
    escaped_text = text.replace("\\", "\\\\").strip()
    return f"{escaped_text}\n" if "\n" in escaped_text else escaped_text


def _format_code(source: str) -> str:
    command = (sys.executable, "-m", "ruff", "format", "--stdin-filename", "models.py", "-")
    completed_process = subprocess.run(  # noqa: S603 - ruff of the environment
        command, input=source, capture_output=True, text=True, check=True
    )
    return completed_process.stdout
