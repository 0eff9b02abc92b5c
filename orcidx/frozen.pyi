from typing import Any, TypeVar

T = TypeVar("T")

def with_fields(value: T, /, **fields: Any) -> T: ...
