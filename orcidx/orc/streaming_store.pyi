"""All other functions of the module are for Cython only; see ``streaming_store.pxd``."""

def integers_use_streaming() -> bool:
    """Whether this processor decodes integers faster when they are stored past the caches."""
