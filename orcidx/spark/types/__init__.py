"""Spark's types, constants and columns beside orcidx's, without pyspark."""
