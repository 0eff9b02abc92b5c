"""Reads a table's metadata files: snapshots, schemas, manifests and the values in them."""
