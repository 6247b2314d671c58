"""Says what a study found: one `Report` of plain data, drawn alike as text, Markdown and a single HTML file.

Owns the figures, the words around them and the renderers. Must not import `studies`, `trial`, `probes` or
`workloads`: a report is made of what the store holds and of nothing else. `build.py` alone reads the store;
everything else is a pure function. Read `sections.py` first, then `build.py`.
"""
