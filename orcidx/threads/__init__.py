"""Waiting, passing objects and counting between threads. An interrupt cannot leave any of the locks locked."""
