from collections.abc import Sequence

from orcidx.orc.stripe_footer import StripeFooter
from orcidx.storage.local_file import LocalFile

class StoredStripes:
    def __init__(
        self, stripes: Sequence[tuple[tuple[int, bytes | memoryview] | LocalFile, StripeFooter, int]]
    ) -> None: ...
    def __len__(self) -> int: ...

class Unusual(Exception): ...
