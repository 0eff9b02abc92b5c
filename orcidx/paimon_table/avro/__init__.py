"""Reads and writes Avro object container files, the format of Paimon's manifests."""
