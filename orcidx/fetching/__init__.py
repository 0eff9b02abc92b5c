"""Everything that waits for bytes: driving a scan's requests, prefetched ranges, the byte budget."""
