"""Paimon tables: snapshots, manifests, what to read of them, and the scan."""
