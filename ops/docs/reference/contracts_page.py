"""Generates the page of the contracts in contracts/roots/ from ABI and NatSpec comments."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reference.markdown import render_head, render_table
from reference.natspec import Declaration, read_declarations

_ROOT = Path(__file__).resolve().parents[3]
_SOURCES = _ROOT / "contracts"
_CORE = (
    *("RoundHead", "RoundLimits", "OracleRoles", "ReportSigners", "RootRounds"),
    *("KickoutLimits", "KickoutsByProof"),
)

_ABOUT = """\
This page is for developers who call the contracts in `contracts/roots/`, and for auditors. It
lists their functions, events, errors and structs.

Times are unix seconds, and lengths of time are seconds. A lane is 1 (do not select) or 2 to 10002
(QoS in steps of 0.0001, plus 2). See [report format](report-format.md#roots) for leaves and roots,
and [contract invariants](contract-invariants.md) for conditions that are true after every call.
"""

# Parts of QoSRoots that are inherited from OpenZeppelin's EIP712.
_FROM_OPENZEPPELIN = {
    "eip712Domain": "The EIP-712 domain, as ERC-5267 defines.",
    "EIP712DomainChanged": "Never emitted: the domain is fixed (ERC-5267).",
    "InvalidShortString": "Never occurs: name and version of the domain are fixed.",
    "StringTooLong": "Never occurs: name and version of the domain are fixed.",
}


class Contract(NamedTuple):
    """A documented contract.

    If several sources declare a name, the first one counts.
    """

    name: str
    sources: tuple[str, ...]
    structs: tuple[str, ...]


CONTRACTS = (
    Contract(
        "QoSRoots",
        (
            *("roots/QoSRoots", *(f"roots/core/{name}" for name in _CORE)),
            *("roots/IQoSRoots", "roots/QoSProof", "roots/core/TargetCall"),
        ),
        ("Setup", "Limits", "KickLimits", "Report", "Head", "NodeKick"),
    ),
    Contract("QoSProof", ("roots/QoSProof",), ("NodeLeaf", "RoundSummary")),
    Contract("QoSWords", ("roots/QoSWords", "IQoSOracle", "roots/QoSProof"), ("Counts",)),
    Contract("QoSChallenge", ("roots/QoSChallenge", "roots/QoSProof"), ()),
    Contract("Objections", ("roots/Objections",), ("Objection",)),
)


def render_page() -> str:
    """Render the page of the contracts as Markdown.

    Raises:
        LookupError: a function, event, error or field of a struct has no comment.
    """
    source = "the sources in `contracts/roots/` and the ABIs in `abi/roots/`"
    page_parts = [render_head("Contract interface", source, about=_ABOUT)]
    for contract in CONTRACTS:
        page_parts += _render_contract(contract)
    return "\n".join(page_parts)


def _render_contract(contract: Contract) -> Iterator[str]:
    source_paths = [_SOURCES / f"{name}.sol" for name in contract.sources]
    declarations = read_declarations(source_paths)
    abi = json.loads((_ROOT / f"abi/roots/{contract.name}.json").read_text("utf-8"))["abi"]
    declaration_kind = "library" if ("library", contract.name) in declarations else "contract"
    notice = _require_declaration(declarations, declaration_kind, contract.name).notice
    yield f"## {contract.name}\n\n{notice}\n"
    if declaration_kind == "library":
        functions = render_table(("function", "meaning"), _iter_library_rows(declarations))
    else:
        columns = ("function", "caller", "meaning")
        functions = render_table(columns, _iter_function_rows(declarations, abi))
    yield f"### Functions\n\n{functions}"
    source_text = "\n".join(path.read_text("utf-8") for path in source_paths)
    emitted_events = [
        entry for entry in abi if entry["type"] == "event" and _is_emitted(entry, source_text)
    ]
    for declaration_kind, heading, parts in (
        ("event", "Events", emitted_events),
        ("error", "Errors", [entry for entry in abi if entry["type"] == "error"]),
    ):
        rows = [
            (
                _format_signature(entry),
                _format_description(declarations, declaration_kind, entry["name"]),
            )
            for entry in parts
        ]
        if rows:
            yield f"### {heading}\n\n" + render_table((declaration_kind, "meaning"), rows)
    for name in contract.structs:
        yield _render_struct(_require_declaration(declarations, "struct", name))


def _is_emitted(entry: Mapping[str, Any], source_text: str) -> bool:
    """Return whether the sources emit an event.

    An event that is only declared in a base contract is not emitted.
    """
    return entry["name"] in _FROM_OPENZEPPELIN or f"emit {entry['name']}(" in source_text


def _iter_function_rows(
    declarations: Mapping[tuple[str, str], Declaration], abi: list[dict[str, Any]]
) -> Iterator[tuple[str, str, str]]:
    functions = [entry for entry in abi if entry["type"] == "function"]
    for entry in sorted(functions, key=lambda entry: entry["stateMutability"] != "nonpayable"):
        name = entry["name"]
        declaration_kind = "function" if ("function", name) in declarations else "variable"
        is_view = entry["stateMutability"] in {"view", "pure"}
        role = (
            declarations[declaration_kind, name].role
            if (declaration_kind, name) in declarations
            else ""
        )
        caller = "view" if is_view else role or "any account"
        yield (
            _format_signature(entry),
            caller,
            _format_description(declarations, declaration_kind, name),
        )


def _iter_library_rows(
    declarations: Mapping[tuple[str, str], Declaration],
) -> Iterator[tuple[str, str]]:
    for (kind, name), declaration in declarations.items():
        if kind == "function" and " internal " in declaration.code:
            arguments = re.sub(r" (calldata|memory)\b", "", declaration.code)
            signature = arguments.removeprefix("function ").partition(" internal")[0]
            yield f"`{signature}`", _format_description(declarations, kind, name)


def _format_signature(entry: Mapping[str, Any]) -> str:
    arguments = ", ".join(
        f"{_get_type_name(argument)} {argument['name']}".strip() for argument in entry["inputs"]
    )
    return f"`{entry['name']}({arguments})`"


def _get_type_name(argument: Mapping[str, Any]) -> str:
    """Return the type of an argument, or the name of its struct."""
    internal_type = str(argument["internalType"])
    if internal_type.startswith("struct "):
        return internal_type.removeprefix("struct ").rpartition(".")[2]
    return str(argument["type"])


def _format_description(
    declarations: Mapping[tuple[str, str], Declaration], kind: str, name: str
) -> str:
    """Format the notice of a name, with its parameters and return values."""
    if name in _FROM_OPENZEPPELIN:
        return _FROM_OPENZEPPELIN[name]
    declaration = _require_declaration(declarations, kind, name)
    parameter_text = "; ".join(f"`{name}`: {text}" for name, text in declaration.params.items())
    sentences = [declaration.notice, f"{parameter_text}." if parameter_text else ""]
    return " ".join(sentence for sentence in sentences if sentence)


def _render_struct(declaration: Declaration) -> str:
    struct_fields = re.findall(r"([\w\[\]]+) (\w+);", declaration.code.partition("{")[2])
    undocumented_names = [name for _, name in struct_fields if name not in declaration.params]
    if undocumented_names:
        raise LookupError(
            f"struct {declaration.name}: fields without a comment: {undocumented_names}"
        )
    rows = [(f"`{name}`", kind, declaration.params[name]) for kind, name in struct_fields]
    table = render_table(("field", "type", "meaning"), rows)
    return f"### {declaration.name}\n\n{declaration.notice}\n\n{table}"


def _require_declaration(
    declarations: Mapping[tuple[str, str], Declaration], kind: str, name: str
) -> Declaration:
    declaration = declarations.get((kind, name))
    if declaration is None or not (declaration.notice or declaration.params):
        raise LookupError(f"{kind} {name}: no @notice in contracts/")
    return declaration
