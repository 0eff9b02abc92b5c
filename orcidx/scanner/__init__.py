"""Doing the scan: files in order, stripes decoded, batches joined."""
