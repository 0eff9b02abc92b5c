"""Functions for Cython only; see ``far_copy.pxd``."""
