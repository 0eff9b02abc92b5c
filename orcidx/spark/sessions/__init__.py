"""A Spark session: its settings, file systems, catalog and JVM."""
