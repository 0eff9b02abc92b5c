"""The two thread pools of storage.

Readers wait for requests, so readers and requests must not share threads: a pool full of readers would leave no thread
for requests."""

from __future__ import annotations

from orcidx.threads.tasks import Pool

__all__ = ["READERS", "REQUESTS"]

READERS = Pool(8)
"""Whole ``read_ranges`` calls, started ahead of their use."""
REQUESTS = Pool(16)
"""Single requests of libraries that are not asynchronous."""
