"""Functions for Cython only; see ``v1_runs.pxd``."""
