"""Inspects files: how their bytes are used, how their streams are encoded, and whether they are valid."""
