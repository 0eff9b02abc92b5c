"""Functions for Cython only; see ``int_runs.pxd``."""
