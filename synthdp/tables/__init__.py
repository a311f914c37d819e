"""Tables in and out: their outer form, their cells, dataframes in memory; files, databases and clusters in folders below."""
