"""The verbs: one file each, holding a click command object named `command`; what they share is in the folders.

Thin: parses flags, calls one function of the layers below, prints. `main.py` names the verbs and loads a file only
when its verb is called, so that `pgdyno --help` imports nothing but click. Results go to stdout, everything else to
stderr. Nothing imports cli.
"""
