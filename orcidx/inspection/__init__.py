"""Looking into files: what their bytes are spent on, how their streams are coded, and whether all of it is sound."""
