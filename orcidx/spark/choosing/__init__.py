"""Which engine carries out a read, and why."""
