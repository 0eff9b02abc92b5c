"""Functions for Cython only; see ``bit_unpack.pxd``."""
