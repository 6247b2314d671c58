"""Keys that the server made in the capture: which INSERT returned which, and which statements name one later."""
