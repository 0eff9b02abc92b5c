"""A read that orcidx carries out: its plan on the driver, its tasks, and the rows of the tasks."""
