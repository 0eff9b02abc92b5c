"""What a scan skips and why: the data of an explanation, and how it is shown."""
