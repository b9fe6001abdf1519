"""Where things stand in a picture, and their colours."""
