"""Functions for Cython only; see ``kept_rows.pxd``."""
