"""The rest is for Cython only; see ``far_copy.pxd``."""

def integers_go_far() -> bool:
    """Whether this processor decodes integers faster when they are stored past the caches."""
