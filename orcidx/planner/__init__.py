"""Plans what a scan reads: the columns, and in each stripe the rows that indexes do not rule out."""
