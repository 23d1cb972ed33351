"""What all pages are made of: their look, sections, charts, and how they write numbers."""
