"""Plans what a scan reads: columns, and the rows of each stripe that indexes do not rule out."""
