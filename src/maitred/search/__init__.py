"""Find tools by what they do, in process and offline."""
