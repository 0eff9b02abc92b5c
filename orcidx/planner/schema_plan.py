"""``SchemaPlan`` is the part of a file's scan that depends only on its schema. It is made once and shared by all files
with that schema.

A directory may have thousands of files with the same schema. A plan is made for the first of them and kept in a bounded
cache. The cache key has everything on which the plan depends: the types with their attributes, the encrypted columns,
the request, and the types of constant columns. It also says which columns are read as dictionaries, and whether rows
are left out, because both can change the types of decoded columns. Values of constants, the file's name and its time
zone are not part of the plan. Errors are not cached: each file raises its own error.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import pyarrow as pa

from orcidx.errors import Unsupported
from orcidx.options import ReadOptions
from orcidx.orc.kinds import TypeKind
from orcidx.orc.metadata import Encryption
from orcidx.orc.metadata_cache import PLANS
from orcidx.orc.projection import project
from orcidx.orc.small_stripe import Recipe, recipe_of
from orcidx.orc.types import OrcType, arrow_type
from orcidx.planner.column_plan import ColumnPlan, as_wanted, shared_column
from orcidx.planner.columns_below import field_below, named_below
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.planner.schema_mapping import ColumnPaths, FieldSource, clear_columns, computed_type, map_columns
from orcidx.predicate import BoundKeys, BoundPredicate, External, Leaf, bind, bind_keys, resolve_column, weight_of
from orcidx.predicate.fold import Part, parts, rewritten

__all__ = ["AtOnce", "SchemaPlan", "schema_plan"]

Path = tuple[str, ...]

MOST_EXACT = 16
"""The maximum number of column plans that are kept for one schema. They differ in which timestamps need 128 bits."""
MOST_ASKED_COLUMNS = 4
"""The maximum number of ``AskedColumns`` that are kept for one schema and request. They differ in the columns of the
predicate."""
PLAN_BYTES = 4096
PLANNED_COLUMN_BYTES = 2048
"""The estimated bytes of a plan without its predicate, and the estimated bytes of each column in its tree and in the
wanted schema."""


def schema_plan(
    schema_key: bytes,
    root: OrcType,
    request: ScanRequest,
    job: FileJob,
    *,
    encryption: Encryption | None = None,
    dictionaries: frozenset[int] = frozenset(),
) -> SchemaPlan:
    """The plan of a file's schema. It is taken from the cache if the same request was made for this schema before.

    ``schema_key`` has the types in their stored form. ``root`` is the tree of types. ``encryption`` says what is
    encrypted in the file.
    """
    options = request.options
    constants = {name: _type_of(value) for name, value in job.constants.items()} if job.constants else {}
    secret = None if encryption is None or options.encrypted == "masked" else encryption
    leaves_rows = options.strings == "view" and _chooses_rows(job)
    # The key contains the identities of predicates and schemas, and the plan keeps these objects alive. A comparison by
    # value would treat 1, 1.0 and True as equal, although they have different meanings.
    key: Hashable = (
        schema_key,
        id(request.schema),
        request.columns,
        request.match,
        request.row_numbers,
        request.file_path,
        options.key,
        tuple(constants.items()),
        dictionaries,
    )
    own: Hashable = (key, id(request.where), secret, leaves_rows)
    plan: SchemaPlan | None = PLANS.get(own)
    if plan is None:
        columns: SchemaColumns | None = PLANS.get(key)
        if columns is None:
            columns = SchemaColumns(root, replace(request, where=None), constants, dictionaries)
            PLANS.put(key, columns, columns.weight)
        plan = SchemaPlan(columns, request, secret, leaves_rows)
        PLANS.put(own, plan, columns.weight + weight_of(request.where))
    return plan


def _chooses_rows(job: FileJob) -> bool:
    # ``is not None`` is used, because arrays cannot be converted to bool
    return any(one is not None for one in (job.selection, job.deleted, job.row_range))


def _type_of(value: Any) -> pa.DataType:
    return value.type if isinstance(value, pa.Scalar) else pa.scalar(value).type


class AtOnce(NamedTuple):
    """Columns of small stripes that are read by one call, with their readers and options. ``dictionaries``: ids of
    columns that are read as Arrow dictionaries. ``schema``: the schema of a batch of these columns. None if no batch is
    made. ``views``: indexes of columns that are read as strings, and are views in ``schema``."""

    recipe: Recipe
    columns: Sequence[OrcType]
    options: Sequence[ReadOptions]
    dictionaries: frozenset[int] = frozenset()
    schema: pa.Schema | None = None
    views: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class SchemaColumns:
    """The columns of a request, applied to one schema. The predicate is not included, because it is not part of the
    cache key.

    ``root`` is the tree of types. ``constants`` has the types of the columns with one value in a file, by name.
    """

    root: OrcType
    request: ScanRequest
    constants: Mapping[str, pa.DataType]
    dictionaries: frozenset[int]
    _asked: dict[Hashable, AskedColumns] = field(default_factory=dict, init=False, repr=False)

    def asked(self, paths: tuple[Path, ...] | None, secret: Encryption | None, leaves_rows: bool) -> AskedColumns:
        """The columns of the request together with the columns of a predicate. ``paths``: the paths in the predicate,
        or None without a predicate. For ``secret`` and ``leaves_rows`` see ``SchemaPlan``."""
        key = paths, secret, leaves_rows
        found = self._asked.get(key)
        if found is None:
            if len(self._asked) >= MOST_ASKED_COLUMNS:
                self._asked.clear()
            found = self._asked[key] = AskedColumns(self, paths, secret, leaves_rows)
        return found

    @property
    def weight(self) -> int:
        """The estimated number of bytes in memory of this object and of a plan that uses it. The plan's predicate is
        not counted."""
        wanted = self.request.schema
        columns = len(self.root.names) + (0 if wanted is None else len(wanted.names)) + len(self.constants)
        return PLAN_BYTES + PLANNED_COLUMN_BYTES * columns

    def _map(self, columns: Any, options: ReadOptions, dictionaries: frozenset[int]) -> tuple[FieldSource, ...]:
        mapped = map_columns(
            self.root,
            columns,
            options=options,
            wanted=self.request.schema,
            match=self.request.match,
            constants={name: pa.scalar(None, kind) for name, kind in self.constants.items()},
            dictionaries=dictionaries,
        )
        name = self.request.file_path
        own = () if name is None else (FieldSource(pa.field(name, pa.string())),)
        return (*mapped, *own)

    @cached_property
    def fields(self) -> tuple[FieldSource, ...]:
        """The wanted columns and the source of each. Values of constants are not included, because they differ between
        files."""
        return self._map(self.request.columns, self.request.options, self.dictionaries)

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self.request.with_row_numbers(pa.schema([source.field for source in self.fields]))

    @cached_property
    def nodes(self) -> Mapping[int, OrcType]:
        """The wanted columns, and all columns below them, by column id."""
        return _nodes_of([source.column for source in self.fields if source.column is not None])

    @cached_property
    def _predicate_names(self) -> ColumnPaths | None:
        """The columns that a predicate may use. Columns of the wanted schema that match several columns of the file are
        left out. None means all columns."""
        wanted, match = self.request.schema, self.request.match
        return None if wanted is None or match != "name" else clear_columns(self.root, wanted, self.request.options)

    @cached_property
    def predicate_columns(self) -> dict[str, FieldSource]:
        """Every column that a predicate may use, by name. These are the columns of the file and of the wanted schema,
        and the constant columns of the job."""
        exact = self.request.options.override(strings="string", timestamp_unit="ns", calendar="proleptic")
        found: dict[str, FieldSource] = {}
        for source in self._map(self._predicate_names, exact, frozenset()):
            kind = source.field.type if source.column is None else arrow_type(source.column, exact)
            found.setdefault(source.field.name, replace(source, field=source.field.with_type(kind)))
        return found

    @cached_property
    def predicate_schema(self) -> pa.Schema:
        """The schema of the columns that a predicate may use."""
        return pa.schema([source.field for source in self.predicate_columns.values()])

    def raise_ambiguous(self, name: str) -> None:
        """Raises ``InvalidQuery`` for a wanted column that matches several columns of the file."""
        self._map((name,), self.request.options, frozenset())

    @cached_property
    def computed_schema(self) -> pa.Schema | None:
        """The columns of ``predicate_schema`` with the types in which pyarrow evaluates conditions. The result is None
        if these types are those of ``predicate_schema``."""
        mapped = self._map(self._predicate_names, self.request.options, frozenset())
        wanted = {source.field.name: source.field.type for source in mapped}
        own = self.predicate_schema
        computed = pa.schema([one.with_type(computed_type(one.type, wanted[one.name])) for one in own])
        return None if computed.equals(own) else computed

    @cached_property
    def char_lengths(self) -> dict[Path, int]:
        """The lengths of the CHAR columns and CHAR fields that a predicate may use."""
        return {
            (name, *path): node.max_length
            for name, source in self.predicate_columns.items()
            if source.column is not None
            for path, node in named_below(source.column)
            if node.kind is TypeKind.CHAR
        }


@dataclass(frozen=True, eq=False)
class AskedColumns:
    """The columns of a request together with the columns of a predicate. Predicates that read the same columns share
    this object, whatever values they compare with. Parts are computed when they are first used.

    ``paths`` has the paths in the predicate. It is None without a predicate. The other attributes are those of
    ``SchemaPlan``.
    """

    mapped: SchemaColumns
    paths: tuple[Path, ...] | None
    secret: Any
    leaves_rows: bool
    _column_plans: dict[tuple[bool, ...], ColumnPlan] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def options(self) -> ReadOptions:
        """The options of the request."""
        return self.mapped.request.options

    # ------------------------------------------------------------------ the predicate

    @cached_property
    def places(self) -> dict[Path, OrcType | None]:
        """The file's column for each path in the predicate. It is None for a constant or missing column."""
        places: dict[Path, OrcType | None] = {}
        for path in self.paths or ():
            column = self.mapped.predicate_columns[path[0]].column
            places[path] = None if column is None else field_below(column, path[1:])
        return places

    @cached_property
    def predicate_constants(self) -> dict[Path, FieldSource]:
        """The constant columns in the predicate, by path. They are not columns of the file."""
        return {path: self.mapped.predicate_columns[path[0]] for path, node in self.places.items() if node is None}

    @cached_property
    def stored(self) -> dict[Path, OrcType]:
        """The columns of the file in the predicate, by path."""
        return {path: node for path, node in self.places.items() if node is not None}

    @cached_property
    def predicate(self) -> tuple[tuple[str, OrcType], ...]:
        """Names and top-level columns that the residual filter reads. Structs have only the fields that the filter
        needs."""
        asked: dict[str, list[Path]] = {}
        for path, node in self.places.items():
            if node is not None:
                asked.setdefault(path[0], []).append(path)
        columns = []
        for name, paths in asked.items():
            column = self.mapped.predicate_columns[name].column
            assert column is not None
            root = self.mapped.root
            if column.id != root.id and all(len(path) > 1 for path in paths):
                column = project(replace(root, children=(column,), names=(name,)), paths).root.children[0]
            columns.append((name, column))
        return tuple(columns)

    # ------------------------------------------------------------------ what is decoded

    @cached_property
    def timestamps(self) -> tuple[tuple[OrcType, ...], ...]:
        """The timestamp columns at and below each column of the predicate. Only statistics show whether their values
        fit in 64 bits."""
        kinds = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
        return tuple([tuple([node for node in column.walk() if node.kind in kinds]) for _, column in self.predicate])

    @cached_property
    def nodes(self) -> Mapping[int, OrcType]:
        """All columns that are read, and all columns below them, by column id."""
        return {**self.mapped.nodes, **_nodes_of([column for _, column in self.predicate])}

    def columns(self, exact: tuple[bool, ...]) -> ColumnPlan:
        """The columns that are decoded, with their readers and options. ``exact`` says for each column of the predicate
        whether its timestamps are read as 128 bits of nanoseconds."""
        plan = self._column_plans.get(exact)
        if plan is None:
            if len(self._column_plans) >= MOST_EXACT:
                self._column_plans.clear()
            plan = self._column_plans[exact] = self._make_columns(exact)
        return plan

    def _make_columns(self, exact: tuple[bool, ...]) -> ColumnPlan:
        sources = [(source, source.column) for source in self.mapped.fields if source.column is not None]
        output = tuple([column for _, column in sources])
        predicate = tuple([column for _, column in self.predicate])
        if self.secret is not None:
            self._check_encrypted([*output, *predicate])
        strings = self._decoding.strings
        exact_options = self._decoding.override(timestamp_unit="ns", calendar="proleptic")
        decoding, fields, shared = [], [], []
        for source, column in sources:
            options = source.options or self.options
            options = options if options.strings == strings else options.override(strings=strings)
            decoding.append(options)
            fields.append(as_wanted(source.field, arrow_type(column, options, dictionaries=self.mapped.dictionaries)))
            shared.append(shared_column(column, options, predicate, exact, exact_options))
        row_number = None
        if self.mapped.request.row_numbers is not None:
            row_number = len(fields)
            fields.append(pa.field(self.mapped.request.row_numbers, pa.int64(), nullable=False))
        return ColumnPlan(
            schema=pa.schema(fields),
            output=output,
            output_options=tuple(decoding),
            predicate=predicate,
            # Literals are compared with values in the file's own precision and in the proleptic calendar.
            predicate_options=(exact_options,) * len(predicate),
            predicate_names=tuple([name for name, _ in self.predicate]),
            exact_times=exact,
            shared=tuple(shared),
            row_number=row_number,
        )

    @cached_property
    def _decoding(self) -> ReadOptions:
        """The options for decoding. pyarrow cannot filter views, so strings are read in another form and converted to
        views afterwards."""
        if self.options.strings != "view" or not (self.paths is not None or self.leaves_rows):
            return self.options
        return self.options.override(strings="string")

    def _check_encrypted(self, columns: list[OrcType]) -> None:
        roots = set(self.secret.roots)
        secret = frozenset[int]().union(*(node.ids for node in self.mapped.root.walk() if node.id in roots))
        for node in (node for column in columns for node in column.walk()):
            if node.id in secret:
                raise Unsupported(
                    f"the column is encrypted (keys: {', '.join(self.secret.key_names)}), and orcidx cannot use keys; "
                    'give encrypted="masked" to read the masked values that the writer stored',
                    column=node.dotted,
                )

    @cached_property
    def is_complete(self) -> bool:
        """Whether the decoded columns already are the wanted columns."""
        return bool(self.columns((False,) * len(self.predicate)).schema.equals(self.mapped.schema))


@dataclass(frozen=True, eq=False)
class SchemaPlan:
    """A request applied to one schema. Parts are computed when they are first used. Errors do not name a file.

    ``mapped`` has the parts that do not depend on the predicate. ``secret`` says which columns are encrypted, if
    reading such a column is an error. ``leaves_rows`` says whether a selection, deleted rows or a row range leaves out
    rows. It is set only if strings are read as views.
    """

    mapped: SchemaColumns
    request: ScanRequest
    secret: Any
    leaves_rows: bool

    @cached_property
    def options(self) -> ReadOptions:
        """The options of the request."""
        return self.request.options

    @cached_property
    def root(self) -> OrcType:
        """The tree of types."""
        return self.mapped.root

    @cached_property
    def dictionaries(self) -> frozenset[int]:
        """Ids of the columns that are read as dictionaries."""
        return self.mapped.dictionaries

    @cached_property
    def fields(self) -> tuple[FieldSource, ...]:
        """The wanted columns and the source of each. Values of constants are not included, because they differ between
        files."""
        return self.mapped.fields

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self.mapped.schema

    # ------------------------------------------------------------------ the predicate

    @cached_property
    def where(self) -> BoundPredicate | None:
        """The predicate, bound to the wanted names and to the types of the file. Conditions that pyarrow evaluates are
        bound to the types of ``computed_schema``."""
        if self.request.where is None:
            return None
        predicate, computed = self.request.where, None
        if self.request.schema is not None:
            predicate = rewritten(predicate, partial(self._without_missing, wanted=self.request.predicate_schema))
            if any(isinstance(part, External) for part in parts(predicate)):
                computed = self.mapped.computed_schema
        return bind(
            predicate,
            self.mapped.predicate_schema,
            nan=self.request.options.nan,
            case_sensitive=self.request.options.case_sensitive,
            char_lengths=self.mapped.char_lengths,
            computed=computed,
        )

    def bind_keys(self, path: Path, keys: Sequence[Any]) -> BoundKeys:
        """Keys of a column, converted like the literals of a predicate."""
        return bind_keys(
            path,
            keys,
            self.mapped.predicate_schema,
            nan=self.options.nan,
            case_sensitive=self.options.case_sensitive,
            char_lengths=self.mapped.char_lengths,
        )

    def _without_missing(self, node: Part, wanted: pa.Schema) -> Any:
        """Replaces each leaf on a field that the file's structs do not have. The replacement is the leaf's result for
        null."""
        if isinstance(node, Leaf):
            path, _ = resolve_column(node.path, wanted, case_sensitive=self.options.case_sensitive)
            if path[0] not in self.mapped.predicate_columns:
                self.mapped.raise_ambiguous(path[0])
            column = self.mapped.predicate_columns[path[0]].column
            if column is not None and field_below(column, path[1:]) is None:
                return node.of_null()
        return node

    @cached_property
    def asked(self) -> AskedColumns:
        """The columns of the request together with the columns of the predicate."""
        where = self.where
        return self.mapped.asked(None if where is None else where.columns, self.secret, self.leaves_rows)

    # ------------------------------------------------------------------ what is decoded

    @cached_property
    def at_once(self) -> AtOnce | None:
        """All columns of small stripes, for reading them by one call. It is None if a predicate or an option determines
        which rows are read, or if column readers are needed. Views are read as strings, because then no column reader
        is needed. For few rows, creating a reader takes longer than converting strings to views."""
        if self.request.where is not None or self.request.row_numbers is not None or self.root.kind != TypeKind.STRUCT:
            return None
        plan = self.asked.columns(())
        types, options = plan.schema.types, list(plan.output_options)
        views = tuple([place for place, kind in enumerate(types) if pa.types.is_string_view(kind)])
        for place in views:
            types[place], options[place] = pa.string(), options[place].override(strings="string")
        roundings = [one.decimal_rounding for one in options]
        recipe = recipe_of(plan.output, types, roundings, checked=self.options.utf8 != "unchecked")
        if recipe is None:
            return None
        return AtOnce(recipe, plan.output, options, self.dictionaries, plan.schema, views)

    @cached_property
    def is_complete(self) -> bool:
        """Whether the decoded columns already are the wanted columns."""
        return self.asked.is_complete

    @cached_property
    def has_only_constants(self) -> bool:
        """Whether all wanted columns have one value in a file, so that no column is decoded."""
        is_plain = self.request.where is None and self.request.row_numbers is None
        return is_plain and bool(self.fields) and all(source.column is None for source in self.fields)


def _nodes_of(columns: Sequence[OrcType]) -> dict[int, OrcType]:
    """These columns, and all columns below them, by column id."""
    found: dict[int, OrcType] = {}
    for column in columns:
        found.update({node.id: node for node in column.walk()} if column.names else {column.id: column})
    return found
