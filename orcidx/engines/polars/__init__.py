"""``orcidx.scan_polars``, and the table and the reader through which Polars 2 reads a scan."""
