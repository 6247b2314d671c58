"""Scalability: levels of load on hardware in proportion, and whether they answer alike."""
