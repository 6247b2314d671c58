"""Says what a study found: one `Report` of plain data, drawn alike as text, Markdown and a single HTML file.

Owns the figures, the words around them and the renderers; the page of a kind of study is in its folder in `studies`.
Must not import `studies`: a report is made of what the store holds. Read `sections.py` first, then `page_frame.py`.
"""
