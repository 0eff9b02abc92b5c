"""Files whose footers say that ORC Java wrote them."""

from __future__ import annotations

from orc_messages import blob, uint

import orcidx


def as_java_writes(data: bytes) -> bytes:
    """Changes the footer: ORC Java wrote the file, with the hybrid calendar. The last value of a field counts."""
    end = len(data) - 1 - data[-1]
    postscript = data[end:-1]
    fields = uint(9, 0) + uint(11, 1)
    footer: int = orcidx.open(data)._reader.tail.postscript.footer_length + len(fields)
    postscript = postscript[: postscript.rfind(blob(8000, b"ORC"))] + uint(1, footer) + uint(6, 9) + blob(8000, b"ORC")
    changed: bytes = data[:end] + fields + postscript + bytes([len(postscript)])
    return changed
