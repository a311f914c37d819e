"""Where rows come from: any dataframe, files in chunks, clusters."""
