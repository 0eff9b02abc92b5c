"""Fuzzes the reader of splits in JSON, the form in which they are sent. The input is the text."""

from bad.fuzz_targets.harness import fuzz, instrumented

with instrumented():
    from orcidx.errors import InvalidQuery
    from orcidx.scanner.scan import Split


def one(data: bytes) -> None:
    try:
        split = Split.from_json(data)
        assert Split.from_json(split.to_json()).to_json() == split.to_json()
    except InvalidQuery:
        pass


if __name__ == "__main__":
    fuzz(one)
