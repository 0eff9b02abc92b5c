"""Decodes all rows of a stripe in one call, without column readers. This works for "plain" columns (``plain_columns``).
The rows of many small stripes can be decoded together.

A column reader takes some forty Python calls besides decoding. This is little for a million rows but much for a
hundred. The stripes are in memory or in a local file. From a file each column is read by one call, always into the same
memory, which stays in the processor's cache. Streams of a large stripe are read piece by piece instead, as a column
reader reads them. For columns that are not plain, and for every error, ``read_stripes`` returns None. Column readers
then decode the stripe and raise their errors.
"""

from libc.stdint cimport int64_t, uint64_t

from orcidx.orc.column_streams cimport StoredStripes, Stretch, stretch_of
from orcidx.orc.decimals cimport rounding_of
from orcidx.orc.stripe_tables cimport EncodingTable, StreamTable
from orcidx.orc.plain_columns cimport (
    BINARY, BITS, BYTES, DAYS, DECIMALS, FLOATS, INTS, LONGS, SHORTS, TEXT, Allowance, PlainColumns,
)

import pyarrow as pa

from orcidx.errors import OrcidxError
from orcidx.orc.column_streams import Unusual
from orcidx.orc.kinds import EncodingKind, TypeKind
from orcidx.orc.plain_columns import PLAIN_ROWS

__all__ = ["Recipe", "begin_stripes", "read_stripes", "recipe_of"]

cdef int64_t MOST_STORED = 1 << 19  # limit of the stored bytes of a column; they fit into the processor's cache
cdef int64_t EXPANDED = 8  # texts are assumed to have this many bytes for each stored byte

cdef uint64_t DIRECT = EncodingKind.DIRECT, DIRECT_V2 = EncodingKind.DIRECT_V2

_SHAPES = {
    TypeKind.SHORT: (SHORTS, 2, pa.int16()),
    TypeKind.INT: (INTS, 4, pa.int32()),
    TypeKind.LONG: (LONGS, 8, pa.int64()),
    TypeKind.DATE: (DAYS, 4, pa.date32()),
    TypeKind.FLOAT: (FLOATS, 4, pa.float32()),
    TypeKind.DOUBLE: (FLOATS, 8, pa.float64()),
    TypeKind.BYTE: (BYTES, 1, pa.int8()),
    TypeKind.BOOLEAN: (BITS, 0, pa.bool_()),
    TypeKind.STRING: (TEXT, 0, pa.string()),
    TypeKind.VARCHAR: (TEXT, 0, pa.string()),
    TypeKind.BINARY: (BINARY, 0, pa.binary()),
}


cdef class Recipe:
    """How to read some columns. A recipe is the same for every stripe of a schema. ``checked``: texts must be UTF-8."""

    # (column id, shape, width, Arrow type, precision, scale, rounding) of each plain column
    cdef list columns
    cdef readonly tuple others  # positions of the columns that need readers
    cdef bint checked

    def is_for_a_file(self, footer, int64_t rows, int64_t most) -> bool:
        """Whether reading a stripe from a file will probably succeed: all columns are plain, their streams are adjacent
        and not large, and arrays of ``most`` bytes are enough."""
        cdef StreamTable streams = footer.streams
        cdef EncodingTable encodings = footer.encodings
        cdef Stretch stretch
        cdef Py_ssize_t column
        cdef int shape, width
        cdef int64_t room = 0
        if self.others:
            return False
        for column, shape, width, *_ in self.columns:
            stretch = stretch_of(streams.rows, streams.heads, streams.columns, column)
            if stretch.stored > MOST_STORED or stretch.stop - stretch.start != stretch.stored:
                return False
            if shape != TEXT and encodings.rows[column].kind > DIRECT and encodings.rows[column].kind != DIRECT_V2:
                return False
            room += rows * (width or 4) + (EXPANDED * stretch.stored if shape >= TEXT else 0)
        return 0 < rows <= PLAIN_ROWS and room <= most

    @property
    def row_bytes(self) -> float | None:
        """The number of bytes that a row takes in the Arrow arrays, without validity bits. None if this number depends
        on the values, or if column readers are needed for many rows."""
        cdef int shape, width
        cdef double size = 0
        for _, shape, width, *_ in self.columns:
            if shape >= TEXT or shape == DECIMALS:
                return None
            size += width or 1 / 8
        return None if self.others else size

    def parts(self, Py_ssize_t count) -> list:
        """The recipe divided into at most ``count`` parts, in order."""
        cdef Recipe part
        cdef Py_ssize_t start, step = max(1, (len(self.columns) + count - 1) // count)
        parts = []
        for start in range(0, len(self.columns), step):
            part = Recipe.__new__(Recipe)
            part.columns, part.others, part.checked = self.columns[start : start + step], (), self.checked
            parts.append(part)
        return parts


def recipe_of(columns, types, roundings, *, bint checked):
    """The recipe for reading columns as these Arrow types. None if there are no columns. ``roundings``: the option
    ``decimal_rounding`` of each column."""
    cdef Recipe recipe = Recipe.__new__(Recipe)
    cdef list others = []
    cdef Py_ssize_t place
    recipe.columns = []
    recipe.checked = checked
    for place, (node, wanted, rounding) in enumerate(zip(columns, types, roundings)):
        shape, width, plain = _SHAPES.get(node.kind, (None, 0, None))
        if node.kind == TypeKind.DECIMAL and 0 <= node.scale <= node.precision and 0 < node.precision <= 38:
            shape, width, plain = DECIMALS, 16, pa.decimal128(node.precision, node.scale)
        if plain is None or wanted != plain:
            others.append(place)
        else:
            recipe.columns.append((node.id, shape, width, plain, node.precision or 0, node.scale or 0,
                                   rounding_of(rounding)))
    recipe.others = tuple(others)
    return recipe if recipe.columns or others else None


def begin_stripes(Recipe recipe not None, StoredStripes stripes not None, codec, block_size, *,
                  Allowance allowance not None, bint shifted, bint decimal64, int64_t piece=0, mask=None):
    """Returns an object that decodes all rows of each plain column. Its method ``run`` decodes, mostly without the GIL.
    Then its method ``result`` returns the Arrow arrays, and the number of chunks and bytes that were decompressed. This
    function and ``result`` return None if column readers are needed.

    ``shifted``: dates before the Gregorian calendar must be converted. ``decimal64``: decimals are stored as integers.
    ``piece``: the most bytes of a stream that are read from a file at once. If ``piece`` is 0, the streams of each
    column are read together. They must then be adjacent, and the stripe must have few rows. ``mask``: the wanted
    rows. Columns of values of fixed width without nulls then have only these rows. Other columns have all rows.
    """
    if stripes.rows <= 0 or stripes.has_null_rows or (stripes.rows > PLAIN_ROWS and recipe.row_bytes is None):
        return None
    try:
        return PlainColumns(recipe.columns, stripes, codec, block_size, allowance, checked=recipe.checked,
                            shifted=shifted, decimal64=decimal64, piece=piece, mask=mask)
    except (Unusual, OrcidxError):
        return None


def read_stripes(Recipe recipe not None, stripes, codec, block_size, **options):
    """Decodes all rows of each plain column. For ``stripes`` see ``StoredStripes``. For the other parameters and the
    result see ``begin_stripes``."""
    begun = begin_stripes(recipe, StoredStripes(stripes), codec, block_size, **options)
    if begun is None:
        return None
    begun.run()
    return begun.result()
