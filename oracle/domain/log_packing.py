"""Data of logs without the zeros that fill their words (docs/explanation/storage.md#packed).

Each word of 32 bytes is a byte that says how it is written, and what is left of it: `32 + n` (n
from 0 to 31) for n bytes with leading zeros left out, `63 + n` (1 to 32) with trailing zeros left
out; `95 + n` (1 to 31) are the bytes at the end that make no word. So the upper three bits name
the way, and all are letters of ASCII, which SQL can take apart. Exact both ways for any bytes.
"""

from typing import Final

_WORD: Final = 32
_DIGITS: Final = 2 * _WORD
_LEADING: Final = 32
_TRAILING: Final = 64
_REST: Final = 96
# Words that come again (amounts, places, lengths) are worth remembering; hashes push them out.
_REMEMBERED: Final = 4096


class _PackedWords(dict[str, bytes]):
    """Words, or what is left at the end, as hex digits; each is packed once."""

    def __missing__(self, digits: str) -> bytes:
        if len(self) >= _REMEMBERED:
            self.clear()
        found = self[digits] = _pack_word(bytes.fromhex(digits))
        return found


class _Parts(dict[bytes, str]):
    """The same the other way round."""

    def __missing__(self, part: bytes) -> str:
        if len(self) >= _REMEMBERED:
            self.clear()
        found = self[part] = _unpack_word(part)
        return found


_WORDS: Final = _PackedWords()
_PARTS: Final = _Parts()


def pack_hex(text: str) -> bytes:
    """Return the data of a log, `0x` hex, packed."""
    words = _WORDS
    return b"".join([words[text[at : at + _DIGITS]] for at in range(2, len(text), _DIGITS)])


def unpack_hex(value: bytes) -> str:
    """Return, as `0x` hex, what `pack_hex` was given."""
    written, at, parts = ["0x"], 0, _PARTS
    while at < len(value):
        code = value[at]
        after = at + 1 + (code & 31) + (code >= _TRAILING)
        written.append(parts[value[at:after]])
        at = after
    return "".join(written)


def _pack_word(word: bytes) -> bytes:
    if len(word) < _WORD:
        return bytes([_REST + len(word) - 1]) + word
    left, right = word.lstrip(b"\0"), word.rstrip(b"\0")
    if len(left) < _WORD and len(left) <= len(right):
        return bytes([_LEADING + len(left)]) + left
    return bytes([_TRAILING + len(right) - 1]) + right


def _unpack_word(part: bytes) -> str:
    digits = part[1:].hex()
    if part[0] < _TRAILING:
        return digits.rjust(_DIGITS, "0")
    return digits.ljust(_DIGITS, "0") if part[0] < _REST else digits
