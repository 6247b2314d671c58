"""What `pgdyno compare` can compare besides two runs: one file a way, from flags to page."""
