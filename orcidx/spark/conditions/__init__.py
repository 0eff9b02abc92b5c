"""What a condition means to Spark, and which files it rules out."""
