"""What was asked for on the command line, as requests that studies take."""
