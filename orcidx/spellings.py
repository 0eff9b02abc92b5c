"""Names of pyarrow, pandas, Polars, DuckDB and Spark, and the matching names of orcidx.

The error for an unknown keyword or attribute suggests the name to use. The name comes from the tables of this module,
or it is the most similar known name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orcidx.errors import InvalidQuery

__all__ = [
    "COLUMN",
    "FILE",
    "FUNCTIONS",
    "READING",
    "SCAN",
    "WRITING",
    "added_column_hint",
    "counted",
    "missing_attribute",
    "nearest",
    "share_text",
    "size_text",
    "unknown_keyword",
]

SIMILAR_NAMES = 0.6
"""The similarity (``difflib``, from 0 to 1) that a known name must have to a misspelt name to be suggested for it."""

_OF_SCAN = "it belongs to scan and read of an open file"

READING = {
    **dict.fromkeys(("filters", "filter", "predicate", "condition"), "use where="),
    **dict.fromkeys(("n_rows", "nrows", "num_rows", "max_rows", "head"), "use limit="),
    **dict.fromkeys(("usecols", "select", "names", "projection"), "use columns="),
    **dict.fromkeys(("n_threads", "nthreads", "num_threads", "parallel"), "use use_threads="),
    **dict.fromkeys(("row_index_name", "row_count_name", "file_row_number"), "use row_numbers="),
    **dict.fromkeys(("include_file_paths", "filename"), "use file_path="),
    **dict.fromkeys(("hive_partitioning", "partitioning"), "use hive_partitions="),
    **dict.fromkeys(("skip_rows", "skiprows", "offset"), "use row_range=(start, stop) of one file"),
    **dict.fromkeys(("sort", "sort_by", "order_by"), "use top= and limit=, or sort the table"),
    **dict.fromkeys(("merge_schema", "mergeSchema", "union_by_name"), "use schema=, into which all files are read"),
    "memory_map": "use mmap=",
    "fs": "use filesystem=",
    "read_dictionary": 'use strings="dictionary"',
    "coerce_timestamps": "use timestamp_unit=",
    "buffer_size": "use io_bytes=",
    "pre_buffer": "leave it out: a scan always fetches its data in few requests",
    **dict.fromkeys(("engine", "format"), "leave it out"),
    "use_pandas_metadata": "leave it out",
    "row_groups": "use stripes= of scan and read of an open file, or row_range=",
    "dtype_backend": "leave it out; to_pandas takes types_mapper=",
    **dict.fromkeys(
        ("dtype", "dtypes", "schema_overrides"), "cast the table, or use schema=, which widens columns to its types"
    ),
    **dict.fromkeys(("columns", "where", "limit", "top", "stripes", "row_range", "row_numbers", "schema"), _OF_SCAN),
    **dict.fromkeys(("selection", "deletion_vector", "file_index"), _OF_SCAN),
    **dict.fromkeys(("file_path", "match", "hive_partitions", "indexes"), "it belongs to orcidx.scan"),
    **dict.fromkeys(("storage_options", "filesystem"), "it belongs to orcidx.open and orcidx.scan"),
    "snapshot_id": "it belongs to orcidx.paimon.open_table",
}
"""Keywords for reading that other libraries have, or that another function of orcidx has."""

WRITING = {
    **dict.fromkeys(("codec", "compression_codec"), "use compression="),
    "compression_opts": "use compression_level=",
    "row_group_size": "use row_index_stride= (rows of a row group) or stripe_size= (bytes)",
    "use_dictionary": "use dictionary_key_size_threshold=",
    "version": "use file_version=",
    **dict.fromkeys(("partition_cols", "partitionBy", "partitioning"), "use partition_by= of orcidx.write_dataset"),
    "partition_by": "it belongs to orcidx.write_dataset",
    **dict.fromkeys(("max_rows_per_file", "file_size_bytes"), "use max_file_bytes= of orcidx.write_dataset"),
    "mode": "it belongs to orcidx.write_dataset; a single file is always replaced",
    "existing_data_behavior": "use mode= of orcidx.write_dataset; a single file is always replaced",
    "overwrite": "leave it out: a single file is always replaced; orcidx.write_dataset has mode=",
    "format": "leave it out",
    "data_page_size": "use compression_block_size=",
    "index": "give pyarrow.Table.from_pandas(frame, preserve_index=...)",
    "preserve_index": "give pyarrow.Table.from_pandas(frame, preserve_index=...)",
    "schema": "cast the table, or give the schema to orcidx.OrcWriter",
    "engine": "leave it out",
    "filters": "write orcidx.scan(sources, where=...)",
    "where": "write orcidx.scan(sources, where=...)",
    "bloom_filters": "use bloom_filter_columns=",
    "sort_by": "it belongs to orcidx.rewrite; a Table has sort_by()",
}
"""Keywords for writing that other libraries have, or that another function of orcidx has."""

FUNCTIONS = {
    **dict.fromkeys(("read_orc", "read", "load", "read_parquet"), "orcidx.read_table(path)"),
    "read_pandas": "orcidx.scan(path).to_pandas()",
    **dict.fromkeys(("ORCFile", "OrcReader", "Reader", "ParquetFile"), "orcidx.open(path)"),
    **dict.fromkeys(("merge", "concat", "compact"), "orcidx.rewrite([path, ...], target)"),
    "count": "orcidx.scan(path).count(), or orcidx.open(path).num_rows",
    "schema": "orcidx.read_schema(path)",
    "from_pandas": "orcidx.write_table(frame, path)",
    "open_table": "orcidx.paimon.open_table(path)",
    "Writer": "orcidx.OrcWriter(path, schema)",
    "scan_orc": "orcidx.scan(path), or orcidx.scan_polars(path) for a LazyFrame",
    **dict.fromkeys(("write", "to_orc", "write_orc", "sink_orc"), "orcidx.write_table(table, path)"),
    "ORCWriter": "orcidx.OrcWriter(path, schema)",
    "write_to_dataset": "orcidx.write_dataset(table, directory, partition_by=...)",
    "field": 'orcidx.col("name")',
    **dict.fromkeys(("connect", "register"), "orcidx.register_duckdb(connection, name, path)"),
    **dict.fromkeys(("read_statistics", "statistics"), "orcidx.open(path).statistics_table()"),
    "sql": 'duckdb.sql(...) over orcidx.dataset(path), or where="SQL text"',
}
"""Functions and classes of modules of other libraries, and the matching call of orcidx."""

COLUMN = {
    **dict.fromkeys(("isin", "isInCollection", "in_"), "is_in([...])"),
    **dict.fromkeys(("lower", "upper", "strip"), "function(name), or SQL text as where="),
    **dict.fromkeys(("desc", "asc"), "top= of scan"),
    **dict.fromkeys(("isnull", "isna", "isNull"), "is_null()"),
    **dict.fromkeys(("notnull", "notna", "isNotNull", "is_valid"), "is_not_null()"),
    "isnan": "is_nan()",
    **dict.fromkeys(("startswith", "startsWith"), "starts_with(text)"),
    **dict.fromkeys(("endswith", "endsWith"), "ends_with(text)"),
    **dict.fromkeys(("str", "list", "dt"), "starts_with, ends_with, contains, like, or function(name)"),
    **dict.fromkeys(("rlike", "match_substring", "ilike"), "like(pattern) or contains(text)"),
    "is_between": "between(low, high)",
    **dict.fromkeys(("eqNullSafe", "eq_missing"), "eq_null_safe(value)"),
    **dict.fromkeys(("eq", "equals"), "col(...) == value"),
    **dict.fromkeys(("getField", "get_field", "field", "struct"), 'col("a", "b") for the field b of a'),
    **dict.fromkeys(("cast", "alias"), "a pyarrow expression or SQL text as where="),
}
"""Methods of a column in other libraries, and the matching method of ``orcidx.col``."""

_ROWS = {
    **dict.fromkeys(("collect", "to_arrow", "arrow", "fetch_arrow_table", "toArrow", "fetchall"), "to_table()"),
    **dict.fromkeys(("toPandas", "df", "fetchdf", "to_df", "to_numpy"), "to_pandas()"),
    **dict.fromkeys(("to_dicts", "rows", "iter_rows"), "to_table().to_pylist()"),
    **dict.fromkeys(
        ("write_parquet", "sink_parquet", "to_parquet", "sink_csv", "to_csv", "write_csv"),
        "orcidx convert in the shell, or to_table() and its library",
    ),
    **dict.fromkeys(("write", "sink_orc", "to_orc", "write_orc", "save"), "orcidx.write_table(scan, path)"),
    **dict.fromkeys(
        ("to_record_batch_reader", "fetch_record_batch", "scanner"), "to_reader(), or pass the scan as an Arrow stream"
    ),
    "to_pylist": "to_table().to_pylist()",
    "to_pydict": "to_table().to_pydict()",
    **dict.fromkeys(("slice", "offset", "tail"), "row_range=(start, stop) of one file"),
    **dict.fromkeys(
        ("distinct", "unique", "drop_duplicates", "n_unique"), 'aggregate({"n": "count(*)"}, by=[...]), or to_polars()'
    ),
    **dict.fromkeys(("join", "merge"), "to_polars(), or duckdb.sql(...) over orcidx.dataset(path)"),
    **dict.fromkeys(("describe", "summary"), "orcidx.open(path).statistics_table()"),
    **dict.fromkeys(("pl", "lazy"), "to_polars(), or orcidx.scan_polars(path)"),
    **dict.fromkeys(("show", "take", "first", "fetch", "fetchmany"), "head(n)"),
    **dict.fromkeys(
        ("group_by", "groupBy", "groupby", "agg", "sum", "min", "max", "mean"),
        'aggregate({"n": "count(*)", "total": "sum(price)"}, by=[...])',
    ),
    **dict.fromkeys(
        ("sort", "sort_by", "orderBy", "order_by", "sort_values"), "top= and limit= of scan, or sort the table"
    ),
    **dict.fromkeys(
        ("with_columns", "withColumn", "assign", "drop", "rename"),
        "to_table() or to_polars(), and change the columns there",
    ),
}

SCAN = {
    **_ROWS,
    "where": "filter(...), or where= of scan",
    "num_rows": "count_rows()",
    "shape": "count_rows() and schema",
    "iter_batches": "to_batches()",
    **dict.fromkeys(("columns", "column_names", "names"), "schema.names"),
    **dict.fromkeys(("dtypes", "printSchema"), "schema"),
}
"""Attributes of tables and frames in other libraries, and the matching attribute of a scan."""

FILE = {
    **_ROWS,
    "to_arrow": "read()",
    "to_table": "read()",
    "to_batches": "iter_batches()",
    **dict.fromkeys(("filter", "where"), "scan(where=...) or read(where=...)"),
    "aggregate": 'orcidx.aggregate(path, {"n": "count(*)"}, by=[...])',
    "limit": "scan(limit=...) or head(n)",
    "select": "scan(columns) or read(columns)",
    "shape": "num_rows and schema",
    **dict.fromkeys(("count", "count_rows"), "num_rows, or scan(where=...).count_rows()"),
    **dict.fromkeys(("schema_arrow", "dtypes", "printSchema"), "schema"),
    **dict.fromkeys(("column_names", "names"), "schema.names"),
    "num_columns": "len(schema)",
    "iter_stripes": "read_stripe(n) for n in range(nstripes)",
    **dict.fromkeys(("num_row_groups", "num_stripes"), "nstripes"),
    "read_row_group": "read_stripe(n)",
    "read_row_groups": "read(stripes=[...])",
    **dict.fromkeys(("file_version", "writer_version", "software_version"), "writer"),
    "nstripe_statistics": 'statistics_table("stripe")',
    "file_length": "tail.size",
}
"""Attributes of files in other libraries, and the matching attribute of an ``OrcFile``."""


def unknown_keyword(name: str, known: Iterable[str], elsewhere: Mapping[str, str]) -> InvalidQuery:
    """Returns the error for an unknown keyword. It gives the matching keyword of orcidx, or the nearest names."""
    import difflib  # imported here, because it is needed only after an error

    known = sorted(known)
    if name in elsewhere:
        return InvalidQuery(f"unknown option {name!r}: {elsewhere[name]}")
    # The suggestions include options of other functions. For example, "colums" may mean "columns" of this function or
    # of another function.
    belong = {other for other, text in elsewhere.items() if text.startswith("it belongs")}
    near = difflib.get_close_matches(name.lower(), sorted({*known, *elsewhere}), 3, 0.65)
    own = belong.union(known)
    hints = list(dict.fromkeys(repr(one) if one in own else _hint(elsewhere[one]) for one in near))
    if hints:
        return InvalidQuery(f"unknown option {name!r}; did you mean {' or '.join(hints)}?")
    few = ", ".join(known) if len(known) <= 8 else f"{', '.join(known[:8])} … {len(known)} in all"
    return InvalidQuery(f"unknown option {name!r}; the options are {few}")


def _hint(text: str) -> str:
    """The text of a table as part of a question. A text that only names an option becomes this name, so that an option
    and its other spelling are not suggested as two options."""
    hint = text.removeprefix("use ")
    name = hint.removesuffix("=")
    return repr(name) if name.isidentifier() else hint


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is most similar to a name, whatever the case of the letters. Returns None if no known
    name is similar."""
    import difflib  # imported here, because it is needed only after an error

    by_letters: dict[str, str] = {}
    for one in known:
        by_letters.setdefault(one.casefold(), one)
    near = difflib.get_close_matches(name.casefold(), by_letters, 1, SIMILAR_NAMES)
    return by_letters[near[0]] if near else None


_ADDED = {
    "file_path": "orcidx.scan and orcidx.aggregate add the column of file names with file_path=True; leave it out of "
    "columns=",
    "row_number": "orcidx.scan adds the column of row numbers with row_numbers=True; leave it out of columns=, "
    "conditions, top and aggregates",
}
"""Columns that a scan adds, by their usual names, and how to get them."""


def added_column_hint(name: str) -> str:
    """The end of the error for an unknown column, if a scan can add a column of this name. Otherwise the text is
    empty."""
    return f"; {_ADDED[name]}" if name in _ADDED else ""


def counted(count: int, noun: str) -> str:
    """Returns a number with a noun, such as "1 row" and "2,000 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def share_text(part: float, whole: float) -> str:
    """Returns a part of a whole as text, such as "12.5 %". The text is empty if the whole is 0."""
    return f"{100 * part / whole:.3g} %" if whole else ""


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size_text(count: int) -> str:
    """Returns a number of bytes as text with a unit, such as "1.5 MiB"."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def missing_attribute(owner: str, name: str, elsewhere: Mapping[str, str]) -> AttributeError:
    """Returns the error for an unknown attribute. The error gives the matching attribute of orcidx if there is one."""
    return AttributeError(
        f"{owner} has no attribute {name!r}" + (f": use {elsewhere[name]}" if name in elsewhere else "")
    )
