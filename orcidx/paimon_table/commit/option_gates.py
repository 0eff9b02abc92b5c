"""Lists of table options: options that a change uses, options that do not influence a change, and options that a change
does not support.

Every option of Paimon 2.1's core, ORC, Flink and Spark configuration is in one of the lists below. Any other option is
refused by name, because it may change what a commit has to do. A gate gives the values that an option must have for
certain operations. docs/guides/paimon-tables.md shows the lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orcidx.errors import Unsupported

__all__ = ["Operation", "check_options", "gate_of", "is_known"]

Operation = Literal["rewrite_file_index", "delete", "append"]
ALL = ("rewrite_file_index", "delete", "append")
APPENDING, DELETING, ROWS = ("append",), ("delete",), ("delete", "append")


@dataclass(frozen=True)
class Gate:
    """A restriction on an option. Each operation in ``operations`` accepts the option only if it is not set or has one
    of the values in ``values``. ``why`` is the reason."""

    operations: tuple[str, ...]
    values: tuple[str, ...]
    why: str


_JAVA = "use Paimon in Spark or Flink to change this table"
GATES: dict[str, Gate] = {
    "type": Gate(ALL, ("table",), f"orcidx changes only ordinary tables; {_JAVA}"),
    "branch": Gate(ALL, ("main",), f"orcidx does not change branches; {_JAVA}"),
    "metadata.iceberg.storage": Gate(ALL, ("disabled",), f"Iceberg metadata would become outdated; {_JAVA}"),
    "metastore.partitioned-table": Gate(
        ALL, ("false",), f"orcidx does not update the metastore, which also lists the partitions; {_JAVA}"
    ),
    "metastore.tag-to-partition": Gate(
        ALL, (), f"orcidx does not update the metastore, which also lists the tags; {_JAVA}"
    ),
    "commit.callbacks": Gate(ALL, ("",), f"orcidx does not call the callbacks; {_JAVA}"),
    "commit.custom-listeners": Gate(ALL, ("",), "orcidx does not call the listeners; use Flink to change this table"),
    "tag.callbacks": Gate(ALL, ("",), f"orcidx does not call the callbacks; {_JAVA}"),
    "tag.automatic-creation": Gate(ALL, ("none",), f"orcidx does not make a tag with a commit; {_JAVA}"),
    "tag.batch.customized-name": Gate(ALL, (), f"orcidx does not make a tag with a commit; {_JAVA}"),
    "commit.strict-mode.last-safe-snapshot": Gate(ALL, (), f"orcidx does not check what this option requests; {_JAVA}"),
    "data-file.external-paths": Gate(ALL, ("",), f"orcidx does not write data files outside the table; {_JAVA}"),
    "global-index.external-path": Gate(ALL, ("",), f"global indexes would become outdated; {_JAVA}"),
    "data-evolution.enabled": Gate(
        ALL, ("false",), "the columns of a row are spread over several files; change this table with Spark or pypaimon"
    ),
    "chain-table.enabled": Gate(ALL, ("false",), f"orcidx does not change branches, which chain tables have; {_JAVA}"),
    "query-auth.enabled": Gate(
        ALL, ("false",), "a catalog decides who may see which rows; change the table through the catalog"
    ),
    "visibility-callback.enabled": Gate(ALL, ("false",), f"orcidx does not call the callback; {_JAVA}"),
    "sequence.snapshot-ordering": Gate(
        ALL, ("false",), f"orcidx does not write sequence numbers of snapshots; {_JAVA}"
    ),
    "manifest.format": Gate(
        ALL, ("avro",), "orcidx writes manifests only as Avro; compact the manifests with a newer Paimon"
    ),
    "lock.enabled": Gate(ALL, ("false",), "commits need the lock of a catalog: pass the lock as lock="),
    "scan.fallback-branch": Gate(ALL, (), f"queries of the table also read another branch; {_JAVA}"),
    "scan.primary-branch": Gate(ALL, (), f"queries of the table also read another branch; {_JAVA}"),
    "scan.fallback-snapshot-branch": Gate(ALL, (), f"queries of the table also read another branch; {_JAVA}"),
    "scan.fallback-delta-branch": Gate(ALL, (), f"queries of the table also read another branch; {_JAVA}"),
    **{
        f"pk-{kind}.index.columns": Gate(
            ALL, ("",), f"an index that each commit must update would become outdated; {_JAVA}"
        )
        for kind in ("bitmap", "btree", "full-text", "multivalue", "vector")
    },
    **{
        name: Gate(ALL, ("",), f"the fields that this option names are stored in separate files; {_JAVA}")
        for name in ("blob-field", "blob-descriptor-field", "blob-view-field", "vector-field")
    },
    "changelog-producer": Gate(ROWS, ("none",), f"orcidx does not write a changelog; {_JAVA}"),
    "delete.force-produce-changelog": Gate(DELETING, ("false",), f"orcidx does not write a changelog; {_JAVA}"),
    "row-tracking.enabled": Gate(APPENDING, ("false",), f"orcidx does not assign row ids; {_JAVA}"),
    "commit.force-compact": Gate(APPENDING, ("false",), f"orcidx does not compact; {_JAVA}"),
    "full-compaction.delta-commits": Gate(APPENDING, (), f"orcidx does not compact; {_JAVA}"),
    "partition.end-input-to-done": Gate(APPENDING, ("false",), f"orcidx does not mark partitions as done; {_JAVA}"),
    "bucket-function.type": Gate(
        APPENDING, ("default",), f"orcidx assigns rows to buckets only by Paimon's default function; {_JAVA}"
    ),
    "rowkind.field": Gate(APPENDING, (), f"a column says whether a row is an insertion or a deletion; {_JAVA}"),
    "sequence.field": Gate(APPENDING, (), f"a column decides which of several rows is the newest; {_JAVA}"),
    "file.format": Gate(APPENDING, ("orc", "parquet"), f"orcidx writes only ORC and Parquet; {_JAVA}"),
    "file.format.per.level": Gate(APPENDING, ("",), f"orcidx writes the same format on every level; {_JAVA}"),
    "file.compression.per.level": Gate(APPENDING, ("",), f"orcidx writes the same compression on every level; {_JAVA}"),
    "metadata.stats-mode.per.level": Gate(
        APPENDING, ("",), f"orcidx writes the same mode of statistics on every level; {_JAVA}"
    ),
    "variant.inferShreddingSchema": Gate(APPENDING, ("false",), f"orcidx does not write VARIANT; {_JAVA}"),
    "orc.write.format": Gate(APPENDING, ("0.12",), f"orcidx writes ORC version 0.12; {_JAVA}"),
    "file.suffix.include.compression": Gate(
        APPENDING, ("false",), f"orcidx does not put the compression into file names; {_JAVA}"
    ),
    "write.sequence-number-init-mode": Gate(
        APPENDING, ("scan",), f"orcidx finds the next sequence number only by scanning; {_JAVA}"
    ),
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


HONOURED = _names(
    """bucket bucket-key commit.max-retries commit.max-retry-wait commit.min-retry-wait commit.timeout
    commit.user-prefix data-file.path-directory data-file.prefix deletion-vector.index-file.target-size
    deletion-vectors.bitmap64
    deletion-vectors.enabled file-index.in-manifest-threshold file-index.read.enabled file.block-size
    file.compression file.compression.zstd-level index-file-in-data-file-dir manifest.compression
    manifest.merge-min-count manifest.target-file-size metadata.stats-dense-store
    metadata.stats-keep-first-n-columns metadata.stats-mode orc.bloom.filter.columns orc.bloom.filter.fpp
    orc.compress orc.compress.size orc.compression.zstd.level orc.create.index orc.dictionary.key.threshold
    orc.row.index.stride orc.stripe.size orc.timestamp-ltz.legacy.type partition.default-name
    partition.legacy-name target-file-row-num target-file-size"""
)
"""Options that a change uses."""

HARMLESS = _names(
    """add-column-before-partition aggregation.remove-record-on-delete alter-column-null-to-not-null.disabled
    async-file-write auto-create batch-scan-mode blob-as-descriptor blob-compaction.enabled
    blob-descriptor.source-table blob-view.resolve.enabled blob-write-null-on-fetch-failure
    blob-write-null-on-missing-file blob.copy-buffer-size blob.split-by-file-size blob.target-file-size
    bucket-append-ordered cache-page-size chain-table.chain-partition-keys chain-table.split.key-range-enabled
    chain-table.streaming.merge-snapshot changelog-file.compression changelog-file.format changelog-file.prefix
    changelog-file.stats-mode changelog-producer.row-deduplicate changelog-producer.row-deduplicate-ignore-fields
    changelog.num-retained.max changelog.num-retained.min changelog.precommit-compact.thread-num
    changelog.time-retained clustering.columns clustering.history-partition.idle-to-full-sort
    clustering.history-partition.limit clustering.incremental clustering.incremental.mode
    clustering.incremental.optimize-write clustering.strategy comment commit.discard-duplicate-files
    commit.force-create-snapshot compaction.bucket-distribution-strategy compaction.delete-ratio-threshold
    compaction.file-num-limit compaction.force-rewrite-all-files compaction.force-up-level-0
    compaction.incremental-size-threshold compaction.max-size-amplification-percent compaction.min.file-num
    compaction.offpeak-ratio compaction.offpeak.end.hour compaction.offpeak.start.hour
    compaction.optimization-interval compaction.size-ratio compaction.skip-expired-partitions
    compaction.small-file-ratio compaction.total-size-threshold consumer-id consumer.changelog-only
    consumer.expiration-time consumer.ignore-progress consumer.mode continuous.discovery-interval
    cross-partition-upsert.bootstrap-parallelism cross-partition-upsert.index-ttl
    data-evolution.compaction.rewrite-row-ids data-evolution.merge-into.file-pruning
    data-evolution.merge-into.source-persist data-evolution.reassign.skip-contiguous-row-count
    data-evolution.row-id-conflict-rewrite.max-size data-evolution.row-sidecar.enabled
    data-evolution.row-sidecar.max-selected-rows data-evolution.row-sidecar.max-selection-ratio
    data-file.external-paths.specific-fs data-file.external-paths.strategy data-file.external-paths.weights
    data-file.thin-mode deletion-vectors.merge-on-read deletion-vectors.modifiable disable-explicit-type-casting
    dynamic-bucket.assigner-parallelism dynamic-bucket.initial-buckets dynamic-bucket.max-buckets
    dynamic-bucket.target-row-num dynamic-partition-overwrite end-input.check-partition-expire end-input.watermark
    external fields.default-aggregate-function file-operation.thread-num file-reader-async-threshold
    filesystem.job-level-settings.enabled force-lookup format-table.commit-hive-sync-url
    format-table.file.compression format-table.implementation format-table.partition-path-only-value
    format-table.repair.collect-statistics format-table.scan.list-parallelism format-table.statistics.parallelism
    full-text-index.search-mode global-index.build.max-parallelism global-index.build.max-shard
    global-index.column-update-action global-index.enabled global-index.row-count-per-shard
    global-index.search-mode global-index.thread-num ignore-delete ignore-update-before incremental-between
    incremental-between-scan-mode incremental-between-tag-to-snapshot incremental-between-timestamp
    incremental-to-auto-tag key-value.sequence_number.enabled legacy-timestamp-mapping.enabled
    local-kv-db.block-size local-merge-buffer-size local-sort.max-num-file-handles lock-acquire-timeout
    lock-check-max-sleep lookup-compact lookup-compact.max-interval lookup-wait lookup.async
    lookup.async-thread-number lookup.blob-as-descriptor lookup.bootstrap-parallelism lookup.cache
    lookup.cache-file-retention lookup.cache-max-disk-size lookup.cache-max-memory-size lookup.cache-rows
    lookup.cache-spill-compression lookup.cache.bloom.filter.enabled lookup.cache.bloom.filter.fpp
    lookup.cache.high-priority-pool-ratio lookup.continuous.discovery-interval
    lookup.dynamic-partition.refresh-interval lookup.dynamic-partition.refresh.async lookup.hash-load-factor
    lookup.merge-buffer-size lookup.merge-records-threshold lookup.refresh.async
    lookup.refresh.async.pending-snapshot-count lookup.refresh.full-load-threshold
    lookup.refresh.time-periods-blacklist lookup.remote-file.enabled lookup.remote-file.level-threshold
    manifest-sort.enabled manifest-sort.max-rewrite-size manifest-sort.partition-field
    manifest.delete-file-drop-stats manifest.full-compaction-threshold-size manifest.merge-optimize.enabled
    merge-engine metastore.tag-to-partition.preview num-levels num-sorted-run.compaction-trigger
    num-sorted-run.stop-trigger overwrite-upgrade owner page-size parquet.enable.dictionary
    partial-update.remove-record-on-delete
    partial-update.remove-record-on-sequence-group partition partition.expiration-batch-size
    partition.expiration-check-interval partition.expiration-max-num partition.expiration-strategy
    partition.expiration-time partition.idle-time-to-done partition.idle-time-to-report-statistic
    partition.mark-done-action partition.mark-done-action.custom.class partition.mark-done-action.http.params
    partition.mark-done-action.http.url partition.mark-done-action.mode partition.mark-done.recover-from-state
    partition.sink-strategy partition.time-interval partition.timestamp-format.strict partition.timestamp-formatter
    partition.timestamp-pattern path pk-clustering-override postpone.batch-write-fixed-bucket
    postpone.batch-write-fixed-bucket.max-parallelism postpone.batch-write-fixed-bucket.rescale-load-factor
    postpone.default-bucket-num postpone.merge-on-read postpone.target-row-num-per-bucket
    postpone.target-size-per-bucket precommit-compact primary-key primary-key.nullable provider
    read.allow.fullScan read.batch-size read.changelog read.shuffle-bucket-with-partition
    read.stream.maxBytesPerTrigger read.stream.maxFilesPerTrigger read.stream.maxRowsPerTrigger
    read.stream.maxTriggerDelayMs read.stream.minRowsPerTrigger record-level.expire-time record-level.time-field
    requiredSparkConfsCheck.enabled row-tracking.partition-group-on-commit scalar-index.search-mode scan.bounded
    scan.bounded.watermark scan.bucket scan.creation-time-millis scan.dedicated-split-generation
    scan.fallback-branch.read-fail-fast scan.file-creation-time-millis scan.ignore-corrupt-files
    scan.ignore-lost-files scan.infer-parallelism scan.infer-parallelism.max scan.manifest.parallelism
    scan.max-snapshot.count scan.max-splits-per-task scan.mode scan.parallelism scan.partitions
    scan.plan-auto-tag-for-read.time-retained scan.plan-sort-partition scan.remove-normalize scan.snapshot-id
    scan.split-enumerator.batch-size scan.split-enumerator.mode scan.tag-name scan.timestamp scan.timestamp-millis
    scan.version scan.watermark scan.watermark.alignment.group scan.watermark.alignment.max-drift
    scan.watermark.alignment.update-interval scan.watermark.emit.strategy scan.watermark.idle-timeout
    sequence.field.sort-order sink.clustering.sample-factor sink.clustering.sort-in-cluster sink.committer-cpu
    sink.committer-memory sink.committer-operator-chaining sink.coordinator-commit.enabled
    sink.cross-partition.managed-memory sink.key-only-deletes.enabled sink.managed.writer-buffer-memory
    sink.operator-uid.suffix sink.parallelism sink.process-time-zone sink.savepoint.auto-tag
    sink.use-managed-memory-allocator sink.watermark-time-zone sink.writer-coordinator.cache-expire-after-access
    sink.writer-coordinator.cache-memory sink.writer-coordinator.cache-soft-values sink.writer-coordinator.enabled
    sink.writer-coordinator.page-size sink.writer-coordinator.prefetch-manifests sink.writer-cpu
    sink.writer-memory sink.writer-refresh-detectors snapshot.clean-empty-directories
    snapshot.expire.execution-mode snapshot.expire.limit snapshot.ignore-empty-commit snapshot.num-retained.max
    snapshot.num-retained.min snapshot.time-retained snapshot.watermark-idle-timeout
    sort-compaction.local-sample.magnification sort-compaction.range-strategy sort-engine sort-spill-buffer-size
    sort-spill-threshold source.checkpoint-align.enabled source.checkpoint-align.timeout
    source.operator-uid.suffix source.split.open-file-cost source.split.target-size
    source.split.target-size-with-column-pruning spill-compression spill-compression.zstd-level stream-scan-mode
    streaming-read-append-overwrite streaming-read-overwrite streaming.read.snapshot.delay
    table-read.sequence-number.enabled tag.automatic-completion tag.create-success-file tag.creation-delay
    tag.creation-period tag.creation-period-duration tag.default-time-retained tag.num-retained-max
    tag.period-formatter tag.time-expire-enabled unaware-bucket.compaction.parallelism unaware-bucket.no-shuffle
    variant.shredding.adaptive.maxInferBufferRow variant.shredding.adaptive.retentionRatio
    variant.shredding.inferenceMode variant.shredding.maxInferBufferRow variant.shredding.maxSchemaDepth
    variant.shredding.maxSchemaWidth variant.shredding.minFieldCardinalityRatio variant.shreddingSchema
    vector-index.search-mode vector-search.distribute.enabled vector-search.lateral-join.batch-size
    vector-search.lateral-join.parallelism vector.file.format vector.target-file-size visibility-callback.check-interval
    visibility-callback.timeout write-buffer-for-append write-buffer-size write-buffer-spill.max-disk-size
    write-buffer-spillable write-max-writers-to-spill write-only write.batch-memory write.batch-size
    write.data-evolution.update-conflict-retry.max-attempts write.data-evolution.update-conflict-retry.wait-ms
    write.hive-style-dynamic-partition.enabled write.merge-schema write.merge-schema.explicit-cast
    write.merge-schema.type-widening write.use-v2-write zorder.var-length-contribution

    orc.block.padding orc.block.size orc.column.encoding.direct orc.compression.strategy orc.encoding.strategy
    orc.rows.between.memory.checks orc.stripe.row.count orc.write.batch.size
    parquet.block.size parquet.bloom.filter.enabled parquet.compression parquet.compression.codec.zstd.level
    parquet.dictionary.page.size parquet.page.row.count.limit parquet.page.size parquet.writer.version"""
)
"""Options that do not influence a change. They concern reading, compaction, expiry, engines, or speed."""

_PATTERNS: tuple[tuple[re.Pattern[str], Gate | None], ...] = (
    (re.compile(r"file-index\.(bloom-filter|bitmap|bsi|range-bitmap)\..+"), None),
    (re.compile(r"metadata\.iceberg\..+"), None),  # not gated, because metadata.iceberg.storage is
    (re.compile(r"(commit|tag)\.callback\..+\.param"), None),  # not gated: commit.callbacks and tag.callbacks are
    (re.compile(r"fields\..+\.stats-mode"), None),
    (
        re.compile(
            r"fields\..+\.(aggregate-function|sequence-group|default-value|list-agg-delimiter|distinct|ts-field)"
        ),
        Gate(APPENDING, (), f"the option creates or merges values; {_JAVA}"),
    ),
    (
        re.compile(
            r"fields\..+\.(ignore-retract|nested-key|nested-key-null-strategy|nested-sequence-field|count-limit)"
        ),
        Gate(APPENDING, (), f"the option merges values; {_JAVA}"),
    ),
)


def gate_of(option: str, value: str, operation: Operation) -> Literal["harmless", "honoured", "refused", "unknown"]:
    """Returns how an operation treats an option with this value."""
    gate = _listed_gate(option)
    if not isinstance(gate, Gate):
        return gate or "unknown"
    if operation not in gate.operations:
        return "harmless"
    return "honoured" if value.strip().lower() in gate.values else "refused"


def _listed_gate(option: str) -> Gate | Literal["harmless", "honoured"] | None:
    """The gate of an option, or how changes treat an option without a gate. The result is None for an unknown
    option."""
    if option in GATES:
        return GATES[option]
    if option in HONOURED:
        return "honoured"
    if option in HARMLESS:
        return "harmless"
    return next((gate or "honoured" for pattern, gate in _PATTERNS if pattern.fullmatch(option)), None)


def is_known(option: str) -> bool:
    """Whether an option is in one of the lists."""
    return gate_of(option, "", "rewrite_file_index") != "unknown"


def check_options(options: Mapping[str, str], operation: Operation, admitted: Sequence[str] = ()) -> None:
    """Raises ``Unsupported`` with the name of the first option that the operation refuses or does not know."""
    for option, value in options.items():
        if option in admitted:
            continue
        found = gate_of(option, value, operation)
        if found == "unknown":
            raise Unsupported(
                f"orcidx does not know the table option {option!r}, which may change what a commit has to do; if the "
                f"option is harmless, pass allow_options=[{option!r}]"
            )
        if found == "refused":
            gate = _listed_gate(option)
            assert isinstance(gate, Gate)
            allowed = f" (only {' or '.join(map(repr, gate.values))})" if gate.values else ""
            raise Unsupported(f"{operation} does not support {option} = {value!r}{allowed}: {gate.why}")
