"""Plans what a scan reads: the columns, and the rows of each stripe that indexes do not rule out."""
