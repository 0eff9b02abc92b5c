"""Converts types, constants and columns of Spark to those of orcidx and back, without pyspark."""
