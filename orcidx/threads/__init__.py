"""Waiting, handing over and counting between threads, without a lock that an interrupt could leave held."""
