"""What users bring, as two aligned tables and their moments."""
