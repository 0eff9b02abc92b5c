"""Waiting for bytes: runs a scan's requests, prefetches ranges, and keeps the byte budget."""
