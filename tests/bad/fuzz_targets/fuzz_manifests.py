"""Fuzzes the reader of Paimon's manifests in Avro. The input is the file."""

from bad.fuzz_targets.harness import fuzz, instrumented

with instrumented():
    from orcidx.errors import OrcidxError
    from orcidx.paimon_table.avro.container import read_avro
    from orcidx.paimon_table.metadata.manifest import read_index_manifest, read_manifest, read_manifest_list


def one(data: bytes) -> None:
    view = memoryview(data)
    for read in (read_avro, read_manifest_list, lambda data: read_manifest(data).entries, read_index_manifest):
        try:
            for _, record in zip(range(1000), read(view)):
                _ = record
        except OrcidxError:
            pass


if __name__ == "__main__":
    fuzz(one)
