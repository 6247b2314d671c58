"""Draws a report: as text, Markdown, one HTML file, PDF, tables and payload. Pure."""
