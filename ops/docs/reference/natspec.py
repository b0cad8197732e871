"""Reads the NatSpec comments of Solidity sources, as the contracts in `contracts/` have them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_TAG = re.compile(r"@(title|notice|dev|param|return|inheritdoc)\s+")
_DECLARED = re.compile(
    r"(?:abstract )?(contract|library|interface|struct|event|error|function|modifier|enum)\s+(\w+)"
)
_VARIABLE = re.compile(r"\bpublic\b(?: constant| immutable| override)* (\w+)(?: =.*)?;$")
_ROLE = re.compile(r"\bonly(Admin|Pauser|Vetoer)\b")


@dataclass(frozen=True, slots=True)
class Declaration:
    """A commented name of a source: `kind` is a keyword of Solidity, or `variable`.

    `code` is the text up to its body or semicolon, for a struct its fields too. `params` are the
    described parameters, fields or return values by name.
    """

    kind: str
    name: str
    code: str
    notice: str = ""
    dev: str = ""
    inherits: str = ""
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def role(self) -> str:
        """Return the role that the call requires: admin, pauser, vetoer, or ""."""
        role = _ROLE.search(self.code)
        return role[1].lower() if role else ""


def read_declarations(paths: Iterable[Path]) -> dict[tuple[str, str], Declaration]:
    """Return the declarations of sources by kind and name; the first source wins.

    A declaration whose comment is only inherited has the comment of the interface, if that is
    among the sources.
    """
    found: dict[tuple[str, str], Declaration] = {}
    inherited: list[Declaration] = []
    for path in paths:
        for declaration in _iterate(path.read_text("utf-8").splitlines()):
            if declaration.inherits:
                inherited.append(declaration)
            else:
                found.setdefault((declaration.kind, declaration.name), declaration)
    for declaration in inherited:
        original = found.get(("function", declaration.name))
        if original is not None:
            found[declaration.kind, declaration.name] = Declaration(
                kind=declaration.kind,
                name=declaration.name,
                code=declaration.code,
                notice=f"{original.notice} {declaration.dev}".strip(),
                params=original.params,
            )
    return found


def _iterate(lines: list[str]) -> Iterator[Declaration]:
    comment: list[str] = []
    for number, line in enumerate(lines):
        text = line.strip()
        if text.startswith("///"):
            comment.append(text[3:].strip())
        elif text and not text.startswith("//"):
            declaration = _parse(_read_code(lines, number), comment)
            comment = []
            if declaration:
                yield declaration
        elif not text:
            comment = []


def _read_code(lines: list[str], number: int) -> str:
    """Return the code from a line up to its body or semicolon; of a struct the fields too."""
    ends = ("}",) if lines[number].strip().startswith("struct ") else ("{", ";")
    code: list[str] = []
    for line in lines[number:]:
        code.append(line.strip())
        if line.rstrip().endswith(ends):
            break
    return " ".join(code)


def _parse(code: str, comment: list[str]) -> Declaration | None:
    declared, variable = _DECLARED.match(code), _VARIABLE.search(code)
    if declared:
        kind, name = declared.groups()
    elif variable:
        kind, name = "variable", variable[1]
    else:
        return None
    first, *tagged = _TAG.split(" ".join(comment))
    parts = list(zip(tagged[::2], (text.strip() for text in tagged[1::2]), strict=True))
    notices = (first.strip(), *(text for tag, text in parts if tag == "notice"))
    named = [text.split(" ", 1) for tag, text in parts if tag in {"param", "return"}]
    return Declaration(
        kind=kind,
        name=name,
        code=code,
        notice=" ".join(notices).strip(),
        dev=" ".join(text for tag, text in parts if tag == "dev"),
        inherits=next((text for tag, text in parts if tag == "inheritdoc"), ""),
        params={words[0]: words[1] if len(words) > 1 else "" for words in named},
    )
