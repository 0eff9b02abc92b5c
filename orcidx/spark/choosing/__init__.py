"""Chooses the engine that carries out a read, and gives the reason."""
