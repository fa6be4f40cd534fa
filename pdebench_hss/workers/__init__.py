"""Jobs in forks of a warm process: a crash, a kill or a timeout of one is an event and not the end."""
