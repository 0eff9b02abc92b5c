"""Tasks, locks, channels and counters for threads. An interrupt cannot leave any of the locks locked."""
