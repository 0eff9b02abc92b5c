"""Long texts and bytes that the JVM serves at a port of this machine (``Served.java``)."""

from __future__ import annotations

import errno
import secrets
import socket
from collections.abc import Callable

from orcidx.spark.types.argument_types import JavaObject

__all__ = ["PIECE", "served", "text_of"]

PIECE = 6000
"""Bytes that are asked of py4j at a time, 8,000 letters of base64. It writes a longer answer in pieces of 8 kB, and the
second waits 40 ms for an acknowledgement; and it moves bytes as text, 10 MB a second (docs/decisions/0240)."""
_SECONDS = 30.0


def text_of(answer: str | JavaObject) -> str:
    """A text that Java gave as it is, or as a ``Served``, if it is longer."""
    return answer if isinstance(answer, str) else served(answer.at).decode()


def served(at: Callable[[bytearray], object]) -> bytes:
    """The bytes of which ``at``, a call of the JVM, tells port and length, given a password for them. Raises
    ``ConnectionError`` where they do not come whole."""
    password = secrets.token_bytes(32)
    port, _, length = str(at(bytearray(password))).partition(" ")
    return _given(int(port), password, int(length))


def _given(port: int, password: bytes, length: int) -> bytes:
    """What is served at a port: so many bytes, after their number."""
    with socket.create_connection(("127.0.0.1", port), timeout=_SECONDS) as connection:
        connection.sendall(password)
        with connection.makefile("rb") as answer:
            head = answer.read(4)
            data = answer.read(length) if len(head) == 4 and int.from_bytes(head, "big") == length else b""
    if len(head) != 4 or len(data) != length:
        raise ConnectionResetError(errno.ECONNRESET, "the JVM's answer has ended early")
    return data
