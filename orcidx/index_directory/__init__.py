"""Builds, describes, cleans and uses ``_orcidx/``, the directory with the indexes and the catalog of ORC files."""
