"""Recognises and describes files that are not ORC, or that are only the beginning of an ORC file. The descriptions say
what to do with such files."""

from __future__ import annotations

import re

__all__ = ["HEAD_BYTES", "MAGIC", "ZEROS", "describe_foreign", "describe_head"]

MAGIC = b"ORC"
HEAD_BYTES = 64
"""The number of bytes at the start of a file that are used to recognise its format."""

_SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"PAR1", "Parquet", "read it with pyarrow.parquet"),
    (b"PARE", "encrypted Parquet", "read it with pyarrow.parquet and its keys"),
    (b"ARROW1", "an Arrow IPC (Feather) file", "read it with pyarrow.ipc"),
    (b"\xff\xff\xff\xff", "an Arrow IPC stream", "read it with pyarrow.ipc"),
    (b"Obj\x01", "Avro", "read it with fastavro"),
    (b"\x1f\x8b", "gzip", "decompress it first: ORC files are compressed inside"),
    (b"BZh", "bzip2", "decompress it first: ORC files are compressed inside"),
    (b"\xfd7zXZ\x00", "xz", "decompress it first: ORC files are compressed inside"),
    (b"\x28\xb5\x2f\xfd", "Zstandard", "decompress it first: ORC files are compressed inside"),
    (b"\x04\x22\x4d\x18", "LZ4", "decompress it first: ORC files are compressed inside"),
    (b"PK\x03\x04", "a ZIP archive", "unpack it first"),
    (b"SEQ", "a Hadoop sequence file", "convert it with Hive or Spark"),
    (b"SQLite format 3\x00", "an SQLite database", "read it with sqlite3"),
    (b"\x89HDF\r\n\x1a\n", "HDF5", "read it with h5py"),
    (b"RCF\x01", "a Hive RCFile", "convert it with Hive"),
    (b"\x93NUMPY", "a NumPy array", "read it with numpy.load"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture", "check whether the file name is right"),
    (b"\xff\xd8\xff", "a JPEG picture", "check whether the file name is right"),
    (b"%PDF-", "a PDF document", "check whether the file name is right"),
    (b"version https://git-lfs", "a pointer of Git LFS", "fetch the file with 'git lfs pull'"),
)
_PATH = re.compile(rb"^(~?/|[a-z0-9]+://)\S*$|^[^\s,]+\.orc$", re.IGNORECASE)
"""A pattern for text without spaces that is a path or URL and not a line of CSV."""
ZEROS = "probably because a copy or an upload did not finish; copy the file again"


def describe_foreign(head: bytes, size: int) -> str:
    """Describes a file whose end is not the end of an ORC file. The description is based on the first ``HEAD_BYTES``
    bytes."""
    if head.startswith(MAGIC) or MAGIC.startswith(head):
        return (
            f"truncated, or not an ORC file: it starts like an ORC file, but its {size} bytes do not end like one; "
            "its writer or a copy did not finish, so write or copy it again"
        )
    for signature, kind, advice in _SIGNATURES:
        if head.startswith(signature):
            return f"not an ORC file: it looks like {kind}; {advice}"
    if head and not head.strip(b"\0"):
        return "not an ORC file: it starts with zeros, " + ZEROS
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] == b"<":
        return (
            "not an ORC file: it looks like HTML or XML, for example an error page that was saved instead of the file"
        )
    if _is_text(head):
        if size <= HEAD_BYTES and _PATH.search(head):
            return (
                "not an ORC file: its content is a path; bytes are read as a file's content, so give os.fsdecode(path)"
            )
        kind, reader = ("JSON", "pyarrow.json") if text[:1] in (b"{", b"[") else ("text, such as CSV", "pyarrow.csv")
        return f"not an ORC file: it looks like {kind}; read it with {reader}"
    return "not an ORC file: neither its PostScript nor its first bytes are those of an ORC file"


def describe_head(head: bytes) -> str:
    """Describes the first bytes, for an error in the tail of a file that ends like an ORC file. The text is empty if
    the first bytes are correct."""
    if head.startswith(MAGIC):
        return ""
    if not head.strip(b"\0"):
        return f"it ends like an ORC file but starts with zeros, {ZEROS}"
    return "its beginning is missing: it only ends like an ORC file; copy it again from its first byte"


def _is_text(head: bytes) -> bool:
    """Whether these bytes are UTF-8 without control characters. The last character may be incomplete."""
    shown = head.decode("utf-8", "ignore")
    whole = len(shown.encode()) >= len(head) - 3
    return bool(shown) and whole and all(char.isprintable() or char in "\t\r\n" for char in shown)
