"""A read that orcidx carries out: its plan on the driver, its tasks and their rows."""
