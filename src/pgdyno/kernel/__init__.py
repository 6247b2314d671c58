"""Linux settings: what is in force, how they are kept, written, put back and made to last."""
