"""Long texts and bytes that the JVM serves at a port of this machine (``Served.java``)."""

from __future__ import annotations

import errno
import re
import secrets
import socket
from collections.abc import Callable

from orcidx.spark.types.argument_types import JavaObject

__all__ = ["ITEM", "PART", "PIECE_BYTES", "items_of", "parts_of", "served_bytes", "text_from_java"]

PIECE_BYTES = 6000
"""How many bytes one call of py4j requests. They are 8,000 characters in base64. py4j writes a longer answer in pieces
of 8 kB, and the second piece waits 40 ms for an acknowledgement. py4j sends bytes as text, at 10 MB per second
(docs/decisions/0240)."""
_TIMEOUT_SECONDS = 30.0
"""If the JVM sends nothing for this many seconds, reading from it fails."""
ITEM, PART = "\x01", "\x02"
_ESCAPED = re.compile("\x03([123])")


def text_from_java(answer: str | JavaObject) -> str:
    """Returns the text of a Java call. A long text is fetched through the ``Served`` object that the call returned."""
    return answer if isinstance(answer, str) else served_bytes(answer.at).decode()


def parts_of(text: str, count: int) -> list[str]:
    """The parts of a text that Java has joined. The last part may contain the separator."""
    return text.split(PART, count - 1)


def items_of(text: str) -> list[str]:
    """The names in a part. ``Served.item`` replaced the separators in the names, and this function restores them."""
    names = text.split(ITEM)
    if "\x03" not in text:
        return names
    return [_ESCAPED.sub(lambda found: chr(int(found[1])), name) for name in names]


def served_bytes(at: Callable[[bytearray], object]) -> bytes:
    """Reads bytes that the JVM serves at a port. ``at`` is a function that calls the JVM. Its argument is a password
    for the bytes. Its result is the port and the number of bytes. Raises ``ConnectionError`` if the bytes do not arrive
    completely."""
    password = secrets.token_bytes(32)
    port, _, length = str(at(bytearray(password))).partition(" ")
    return _given(int(port), password, int(length))


def _given(port: int, password: bytes, length: int) -> bytes:
    """Reads the bytes that are served at a port. The first bytes contain the number of bytes that follow."""
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_SECONDS) as connection:
        connection.sendall(password)
        with connection.makefile("rb") as answer:
            head = answer.read(4)
            data = answer.read(length) if len(head) == 4 and int.from_bytes(head, "big") == length else b""
    if len(head) != 4 or len(data) != length:
        raise ConnectionResetError(errno.ECONNRESET, "the response of the JVM ended early")
    return data
