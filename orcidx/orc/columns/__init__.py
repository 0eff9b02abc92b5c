"""Column readers, a module per family of types; ``orcidx.orc.column_readers.open_column`` picks among them."""
