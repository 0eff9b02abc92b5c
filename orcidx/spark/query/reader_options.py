"""Options of Spark's own reader, and schemas as SQL text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING

from orcidx.errors import InvalidQuery
from orcidx.spellings import nearest

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["options_of_reader", "struct_of_ddl"]

_KNOWN = (
    "mergeSchema",
    "ignoreCorruptFiles",
    "ignoreMissingFiles",
    "pathGlobFilter",
    "recursiveFileLookup",
    "modifiedBefore",
    "modifiedAfter",
    "timeZone",
    "basePath",
)


def options_of_reader(options: Mapping[str, object] | None) -> dict[str, str]:
    """The options as texts, by Spark's names. Raises ``InvalidQuery`` for an unknown name. The message has the most
    similar name."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InvalidQuery(f'options must be a mapping such as {{"mergeSchema": True}}, not {options!r:.80}')
    names = {name.casefold(): name for name in _KNOWN}
    found = {}
    for name, value in options.items():
        known = names.get(str(name).casefold())
        if known is None:
            near = nearest(str(name), _KNOWN)
            hint = f"did you mean {near!r}?" if near else f"the options are {', '.join(_KNOWN)}"
            raise InvalidQuery(f"Spark's ORC reader has no option {name!r}; {hint}")
        found[known] = _text(known, value)
    return found


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            raise InvalidQuery(
                f"{name} is {value!r}, but Spark accepts only times without a zone. Give a time in the zone of the "
                "option timeZone, and leave out its zone"
            )
        return value.isoformat(timespec="seconds")
    return str(value)


def struct_of_ddl(text: str) -> StructType:
    """The ``StructType`` of a text such as "id bigint, name string". Raises ``InvalidQuery`` with Spark's message."""
    from pyspark.errors import PySparkException
    from pyspark.sql import types

    parse = getattr(types.StructType, "fromDDL", None) or types._parse_datatype_string
    try:
        found = parse(text)
    except PySparkException as error:
        raise InvalidQuery(f"schema={text!r:.200}: {str(error).strip().splitlines()[0]}") from None
    if not isinstance(found, types.StructType):
        raise InvalidQuery(f"schema={text!r:.200} is a type, but columns are expected: 'name type, name type'")
    return found
