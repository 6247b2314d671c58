"""Evidence: what server and host did in a window, from statistics, logs and files of other tools."""
