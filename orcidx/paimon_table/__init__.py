"""Reads and changes Paimon tables, with their snapshots and manifests."""
