"""Finds out how Spark interprets a condition, and which files the condition skips."""
