"""Paimon tables: their snapshots and manifests, scans and changes."""
