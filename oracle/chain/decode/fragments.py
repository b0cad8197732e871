"""Parses human-readable signatures: `event TaskStarted(bytes32 indexed task, address node)`.

Solidity keywords between a type and a name (`calldata`, `payable` …) are allowed and ignored, as
is everything after the inputs of a function.
"""

import re
from collections.abc import Iterator

from oracle.chain.decode.abi import AbiSignature, Parameter

_HEAD = re.compile(r"\s*(event|function)\s+([A-Za-z_$][\w$]*)\s*\(")
_TOKEN = re.compile(r"\s*([(),]|[A-Za-z_$][\w$]*|(?:\[\d*\])+)")
_LOCATIONS = {"calldata", "memory", "storage", "payable"}
_SHORT = {"uint": "uint256", "int": "int256", "byte": "bytes1"}
_ELEMENTARY = re.compile(r"address|bool|string|bytes(\d+)?|u?int(\d+)|function")
_BITS = {None, *range(8, 257, 8)}
_BYTES = {None, *range(1, 33)}


def fragment(text: str) -> tuple[str, AbiSignature]:
    """Return the keyword, `event` or `function`, and the signature.

    Raises:
        ValueError: the text is not a signature; the message gives the reason.
    """
    head = _HEAD.match(text)
    if head is None:
        raise ValueError("must begin with `event Name(` or `function name(`")
    tokens = _Tokens(text, head.end())
    inputs = _parameters(tokens)
    what, name = head.groups()
    if what == "function" and any(parameter.indexed for parameter in inputs):
        raise ValueError("only inputs of events are indexed")
    return what, AbiSignature(name, inputs)


class _Tokens:
    """The tokens of a signature, starting at a position of the text."""

    def __init__(self, text: str, start: int) -> None:
        self._all = self._split(text, start)
        self.next = ""
        self.step()

    @staticmethod
    def _split(text: str, start: int) -> Iterator[str]:
        while (found := _TOKEN.match(text, start)) is not None:
            yield found[1]
            start = found.end()
        yield ""

    def step(self) -> str:
        """Return the current token and advance to the next one."""
        taken, self.next = self.next, next(self._all, "")
        return taken


def _parameters(tokens: _Tokens) -> tuple[Parameter, ...]:
    """Parse parameters up to the closing bracket; the opening one has been read."""
    found: list[Parameter] = []
    while tokens.next != ")":
        if found and tokens.step() != ",":
            raise ValueError(f"expected `,` or `)` after {found[-1].name or found[-1].kind}")
        found.append(_parameter(tokens))
    tokens.step()
    return tuple(found)


def _parameter(tokens: _Tokens) -> Parameter:
    kind, parts = _kind(tokens)
    name, indexed = "", False
    while re.match(r"[A-Za-z_$]", tokens.next):
        word = tokens.step()
        if word == "indexed" and not indexed:
            indexed = True
        elif word not in _LOCATIONS:
            if name:
                raise ValueError(f"{word!r} after the name {name!r}")
            name = word
    return Parameter(name, kind, indexed, parts)


def _kind(tokens: _Tokens) -> tuple[str, tuple[Parameter, ...]]:
    word, parts = tokens.step(), tuple[Parameter, ...]()
    if word == "tuple" and tokens.next == "(":
        word = tokens.step()
    if word == "(":
        parts = _parameters(tokens)
        kind = f"({','.join(part.kind for part in parts)})"
    else:
        kind = _elementary(word)
    return kind + (tokens.step() if tokens.next.startswith("[") else ""), parts


def _elementary(word: str) -> str:
    kind = _SHORT.get(word, word)
    found = _ELEMENTARY.fullmatch(kind)
    if found is None or kind == "function":
        raise ValueError(f"{word or 'the end'!r} is no type")
    size, bits = (None if digits is None else int(digits) for digits in found.groups())
    if size not in _BYTES or bits not in _BITS:
        raise ValueError(f"{word!r} is no type")
    return kind
