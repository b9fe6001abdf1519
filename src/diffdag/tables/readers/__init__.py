"""Files of every format, as tables or as moments."""
