"""What a node writes down so that it can go on after a crash: one file for each way to keep it."""
