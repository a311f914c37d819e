"""Where rows come from: dataframes, files, databases, clusters."""
