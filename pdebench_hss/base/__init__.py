"""What everything stands on: errors, files, hashes, references by name, this machine, text on its way out. No torch."""
