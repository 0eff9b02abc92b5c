"""``_orcidx/``, the directory with the indexes of plain files: building, describing, cleaning and using them and their
catalog."""
