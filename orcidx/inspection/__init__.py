"""Inspects files: what their bytes are spent on, how their streams are encoded, and whether all of it is sound."""
