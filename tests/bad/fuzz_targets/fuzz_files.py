"""Reads a whole ORC file, and explains a scan of it. The input is the file."""

import itertools

from bad.fuzz_targets.harness import fuzz, instrumented

with instrumented():
    import orcidx
    from orcidx.errors import OrcidxError


def one(data: bytes) -> None:
    try:
        with orcidx.open(data) as file:
            for batch in itertools.islice(file.scan(use_threads=False, batch_size=1000), 3):
                batch.validate(full=True)
            for field in list(file.schema)[:2]:
                scan = file.scan(where=orcidx.col((field.name,)).is_null(), use_threads=False)
                scan.explain().to_dict()
                for batch in itertools.islice(scan, 2):
                    assert batch.column(0).null_count <= batch.num_rows
    except OrcidxError:
        pass


if __name__ == "__main__":
    fuzz(one)
