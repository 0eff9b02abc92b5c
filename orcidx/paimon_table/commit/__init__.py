"""Changing a table: its state, the next snapshot and the commit, and each kind of change."""
