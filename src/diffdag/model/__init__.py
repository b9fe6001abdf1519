"""Linear structural equation models, their simulation, prior knowledge, and regressions from moments."""
