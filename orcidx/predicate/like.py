"""SQL LIKE patterns. ``%`` matches any run of characters, and ``_`` matches one character. A pattern may have an escape
character.

Inside the package the escape character of a pattern is always backslash (``normalise_like`` converts it).
"""

from __future__ import annotations

from orcidx.errors import InvalidQuery
from orcidx.predicate.nodes import Op

__all__ = ["like_parts", "like_prefix", "like_regex", "normalise_like"]

_ANY, _ONE, _ESCAPE = b"%", b"_", b"\\"


def normalise_like(pattern: bytes, escape: str, *, column: str) -> tuple[Op, bytes]:
    """Returns the simplest operator with the same meaning, and its literal.

    ``abc`` becomes EQ, ``abc%`` becomes STARTS_WITH, ``%abc`` becomes ENDS_WITH, and ``%abc%`` becomes CONTAINS. Any
    other pattern stays LIKE with backslash as the escape character. Raises ``InvalidQuery`` for an escape that is not
    one character, or if the pattern ends with the escape character.
    """
    if not isinstance(escape, str) or len(escape) > 1:
        raise InvalidQuery(f"the escape of a LIKE pattern must be one character, not {escape!r}", column=column)
    tokens = _tokens(pattern, escape.encode(), column)
    if _ONE not in tokens:
        plain = b"".join(token[-1:] for token in tokens if token != _ANY)
        front, back = tokens[:1] == [_ANY], tokens[-1:] == [_ANY]
        wild = tokens.count(_ANY)
        if wild == 0:
            return Op.EQ, plain
        if wild == 1 and (front or back):
            return (Op.STARTS_WITH if back else Op.ENDS_WITH), plain
        if wild == 2 and front and back:
            return Op.CONTAINS, plain
    return Op.LIKE, b"".join(tokens)


def _tokens(pattern: bytes, mark: bytes, column: str) -> list[bytes]:
    """Splits a pattern into wildcards and literal parts with backslash escapes. A run of ``%`` becomes one ``%``."""
    tokens: list[bytes] = []
    i = 0
    while i < len(pattern):
        if mark and pattern.startswith(mark, i):
            i += len(mark)
            if i == len(pattern):
                raise InvalidQuery(f"the LIKE pattern {pattern!r} ends in its escape character", column=column)
            literal = True
        else:
            literal = False
        byte = pattern[i : i + 1]
        i += 1
        if not literal and byte in (_ANY, _ONE):
            if not (byte == _ANY and tokens and tokens[-1] == _ANY):
                tokens.append(byte)
        else:
            tokens.append(_ESCAPE + byte if byte in (_ANY, _ONE, _ESCAPE) else byte)
    return tokens


def _split(pattern: bytes) -> list[tuple[bytes, bool]]:
    """The bytes of a pattern with backslash escapes, as pairs (byte, whether the byte is a wildcard)."""
    pieces, i = [], 0
    while i < len(pattern):
        escaped = pattern[i : i + 1] == _ESCAPE
        i += escaped
        byte = pattern[i : i + 1]
        pieces.append((byte, not escaped and byte in (_ANY, _ONE)))
        i += 1
    return pieces


def like_prefix(pattern: bytes) -> bytes:
    """The bytes with which every match of a normalised pattern starts."""
    prefix = b""
    for byte, wild in _split(pattern):
        if wild:
            break
        prefix += byte
    return prefix


def like_parts(pattern: bytes) -> list[bytes] | None:
    """The bytes before, between and after the ``%`` of a normalised pattern. The result is None if the pattern has a
    ``_`` or no ``%``."""
    parts = [b""]
    for byte, wild in _split(pattern):
        if wild and byte == _ONE:
            return None
        if wild:
            parts.append(b"")
        else:
            parts[-1] += byte
    return parts if len(parts) > 1 else None


def like_regex(pattern: bytes) -> bytes:
    """The pattern as an RE2 expression that matches the whole value. A dot in the expression also matches newlines."""
    parts = [rb"(?s)\A"]
    for byte, wild in _split(pattern):
        if wild:
            parts.append(b".*" if byte == _ANY else b".")
        elif byte.isalnum() or byte >= b"\x80":
            parts.append(byte)
        else:
            parts.append(b"\\x%02x" % byte[0])
    parts.append(rb"\z")
    return b"".join(parts)
