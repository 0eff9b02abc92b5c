"""Fetching of bytes: makes the requests of a scan, prefetches ranges, and divides the byte budget."""
