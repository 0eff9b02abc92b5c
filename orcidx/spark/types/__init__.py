"""Converts between Spark's types, constants and columns and those of orcidx, without pyspark."""
