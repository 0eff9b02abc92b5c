from orcidx.orc_writer.source import Source

class GatheredTexts:
    def bring(self, source: Source, values: Source, start: int, stop: int) -> Source: ...

class KnownEntries:
    def __init__(self, values: Source) -> None: ...
