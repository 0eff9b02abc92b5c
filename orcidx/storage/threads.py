"""The two thread pools of the storage package.

Readers wait for requests, so readers and requests must not share threads. If readers used all threads of a shared pool,
no thread would be left for requests."""

from __future__ import annotations

from orcidx.threads.tasks import Pool

__all__ = ["READERS", "REQUESTS"]

READERS = Pool(8)
"""The threads for whole ``read_ranges`` calls that start before their data is needed."""
REQUESTS = Pool(16)
"""The threads for single requests of libraries that are not asynchronous."""
