"""Runs scans: opens files in order, decodes stripes and joins batches."""
