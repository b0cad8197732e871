"""Reads the NatSpec comments of the Solidity sources in `contracts/`."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_TAG = re.compile(r"@(title|notice|dev|param|return|inheritdoc)\s+")
_NAMED_DECLARATION = re.compile(
    r"(?:abstract )?(contract|library|interface|struct|event|error|function|modifier|enum)\s+(\w+)"
)
_PUBLIC_VARIABLE = re.compile(r"\bpublic\b(?: constant| immutable| override)* (\w+)(?: =.*)?;$")
_ROLE = re.compile(r"\bonly(Admin|Pauser|Vetoer)\b")


@dataclass(frozen=True, slots=True)
class Declaration:
    """A documented declaration in a Solidity source.

    `kind` is the Solidity keyword of the declaration, or `variable`.

    `code` is the text up to the body or semicolon; for a struct, it includes the fields. `params`
    are the descriptions of parameters, fields and return values by name.
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
        """The role that a call requires (admin, pauser or vetoer), or "" if it requires none."""
        role = _ROLE.search(self.code)
        return role[1].lower() if role else ""


def read_declarations(paths: Iterable[Path]) -> dict[tuple[str, str], Declaration]:
    """Read the declarations of sources, by kind and name.

    If several sources declare a name, the first one counts. A declaration with an inherited
    comment gets the comment of the interface, if the interface is among the sources.
    """
    declarations: dict[tuple[str, str], Declaration] = {}
    inheriting_declarations: list[Declaration] = []
    for path in paths:
        for declaration in _iter_declarations(path.read_text("utf-8").splitlines()):
            if declaration.inherits:
                inheriting_declarations.append(declaration)
            else:
                declarations.setdefault((declaration.kind, declaration.name), declaration)
    for declaration in inheriting_declarations:
        inherited_declaration = declarations.get(("function", declaration.name))
        if inherited_declaration is not None:
            declarations[declaration.kind, declaration.name] = Declaration(
                kind=declaration.kind,
                name=declaration.name,
                code=declaration.code,
                notice=f"{inherited_declaration.notice} {declaration.dev}".strip(),
                params=inherited_declaration.params,
            )
    return declarations


def _iter_declarations(lines: list[str]) -> Iterator[Declaration]:
    comment_lines: list[str] = []
    for number, line in enumerate(lines):
        line_text = line.strip()
        if line_text.startswith("///"):
            comment_lines.append(line_text[3:].strip())
        elif line_text and not line_text.startswith("//"):
            declaration = _parse_declaration(_read_code(lines, number), comment_lines)
            comment_lines = []
            if declaration:
                yield declaration
        elif not line_text:
            comment_lines = []


def _read_code(lines: list[str], number: int) -> str:
    """Read the code from a line to the body or semicolon.

    The fields of a struct are included.
    """
    code_endings = ("}",) if lines[number].strip().startswith("struct ") else ("{", ";")
    code_lines: list[str] = []
    for line in lines[number:]:
        code_lines.append(line.strip())
        if line.rstrip().endswith(code_endings):
            break
    return " ".join(code_lines)


def _parse_declaration(code: str, comment: list[str]) -> Declaration | None:
    declaration_match = _NAMED_DECLARATION.match(code)
    variable_match = _PUBLIC_VARIABLE.search(code)
    if declaration_match:
        kind, name = declaration_match.groups()
    elif variable_match:
        kind = "variable"
        name = variable_match[1]
    else:
        return None
    first_text, *tagged_texts = _TAG.split(" ".join(comment))
    tag_texts = list(
        zip(tagged_texts[::2], (text.strip() for text in tagged_texts[1::2]), strict=True)
    )
    notices = (first_text.strip(), *(text for tag, text in tag_texts if tag == "notice"))
    descriptions = [text.split(" ", 1) for tag, text in tag_texts if tag in {"param", "return"}]
    return Declaration(
        kind=kind,
        name=name,
        code=code,
        notice=" ".join(notices).strip(),
        dev=" ".join(text for tag, text in tag_texts if tag == "dev"),
        inherits=next((text for tag, text in tag_texts if tag == "inheritdoc"), ""),
        params={words[0]: words[1] if len(words) > 1 else "" for words in descriptions},
    )
