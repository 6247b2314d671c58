"""Flags of verbs: declared once, checked, and read by type."""
