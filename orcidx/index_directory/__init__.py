"""``_orcidx/``, the indexes beside plain files: its catalog, built, described, cleaned, asked."""
