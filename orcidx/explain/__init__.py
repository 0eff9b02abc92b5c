"""Explains what a scan skips and why. This package has the data of an explanation, and shows it as text and HTML."""
