"""The same as a local web page; see `diffdag serve`."""
