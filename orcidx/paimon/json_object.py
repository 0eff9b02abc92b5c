"""Reads JSON objects of untrusted files. Raises ``CorruptFile`` if the bytes are not exactly one JSON object."""

from __future__ import annotations

import json
from typing import Any

from orcidx.errors import CorruptFile

__all__ = ["parse_json_object"]


def parse_json_object(data: bytes | bytearray | memoryview, what: str) -> dict[str, Any]:
    """Parses the JSON object in UTF-8 ``data``. ``what`` names the object in error messages."""
    try:
        value = json.loads(bytes(data).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise CorruptFile(f"{what} is JSON, but not an object")
    return value
