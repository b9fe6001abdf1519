"""Renderers of a result: text, exchange formats, picture, page. Nothing heavy is imported here."""
