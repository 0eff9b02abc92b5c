"""What a scan reads: the request, the columns, and what the indexes leave of each stripe."""
