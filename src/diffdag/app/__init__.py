"""The command line and the local web page."""
