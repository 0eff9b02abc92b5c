"""What a table's metadata files say: snapshots, schemas, manifests and the values that they hold."""
