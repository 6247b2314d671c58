"""The pages of advice: terminal, Markdown, HTML and JSON."""
