"""Finding tools by words."""
