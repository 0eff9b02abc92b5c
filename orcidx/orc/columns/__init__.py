"""Column readers, one module for each family of types. ``orcidx.orc.column_readers.open_column`` chooses the reader."""
