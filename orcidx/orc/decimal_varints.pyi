"""Functions for Cython only; see ``decimal_varints.pxd``."""
