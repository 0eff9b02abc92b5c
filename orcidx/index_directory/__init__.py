"""``_orcidx/``, the indexes beside plain files: building, describing, cleaning and using them and their catalog."""
