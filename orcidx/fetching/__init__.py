"""Fetches bytes. This package makes the requests of a scan, prefetches ranges, and divides the byte budget."""
