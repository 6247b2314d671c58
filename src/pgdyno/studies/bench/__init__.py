"""One configuration, measured as it is: runs without a comparison, and their page."""
