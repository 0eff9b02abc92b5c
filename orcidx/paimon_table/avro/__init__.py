"""Avro object container files, as Paimon writes its manifests."""
