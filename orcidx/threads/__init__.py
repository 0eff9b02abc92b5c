"""Waiting, handing over and counting between threads, without locks that an interrupt could leave locked."""
