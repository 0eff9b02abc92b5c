from orcidx.orc.footer_records import StripeInformation
from orcidx.orc.metadata import FileFacts
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.small_tails import FileKind, Like
from orcidx.orc.stripe_footer import StripeFooter

class FoundFile:
    data: memoryview
    size: int
    mtime_ns: int
    is_whole: bool
    def __init__(self, data: memoryview, size: int, mtime_ns: int) -> None: ...

class SmallFile(FoundFile):
    like: Like
    rows: int
    stripes: tuple[StripeInformation, ...]
    footer_bytes: bytes
    footer: StripeFooter | None
    kind: FileKind
    facts: FileFacts
    def __init__(
        self, found: FoundFile, like: Like, rows: int, stripes: tuple[StripeInformation, ...], footer_bytes: bytes
    ) -> None: ...
    def stripe_footer(self, stripe: StripeInformation, limits: MetadataLimits) -> StripeFooter: ...
