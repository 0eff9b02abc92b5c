"""Changes files so that their footers name ORC Java as the writer."""

from __future__ import annotations

from orc_messages import blob, uint

import orcidx


def as_java_writes(data: bytes) -> bytes:
    """Adds fields to the footer. They say that ORC Java wrote the file, with the hybrid calendar. Readers use the last
    value of a field."""
    end = len(data) - 1 - data[-1]
    postscript = data[end:-1]
    fields = uint(9, 0) + uint(11, 1)
    footer: int = orcidx.open(data)._reader.tail.postscript.footer_length + len(fields)
    postscript = postscript[: postscript.rfind(blob(8000, b"ORC"))] + uint(1, footer) + uint(6, 9) + blob(8000, b"ORC")
    changed: bytes = data[:end] + fields + postscript + bytes([len(postscript)])
    return changed
