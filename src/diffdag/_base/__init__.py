"""What every room stands on: errors, checks, files, parallel work, progress."""
