"""The local web page; see `diffdag serve`."""
