"""What threads of the package wait for, hand over and count, without a lock that an interrupt could leave held."""
