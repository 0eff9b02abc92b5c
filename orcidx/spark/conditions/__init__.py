"""How Spark reads a condition, and which files the condition rules out."""
