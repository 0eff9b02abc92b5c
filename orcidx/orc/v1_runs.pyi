"""Whole runs of version 1 in a row; nothing here is called from Python."""
