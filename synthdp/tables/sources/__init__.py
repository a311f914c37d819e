"""Where rows come from and go to: files, databases, clusters, and what a table of any kind stands for."""
