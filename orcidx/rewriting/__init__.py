"""Files made of files: stripes copied, recompressed or given indexes, rows sorted, clustered and encoded anew."""
