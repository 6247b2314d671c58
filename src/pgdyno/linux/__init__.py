"""Pure readers of /proc, /sys and cgroups: processes, CPUs, devices and the host."""
