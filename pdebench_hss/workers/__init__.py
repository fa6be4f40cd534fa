"""Jobs in forks of a warm process: if one crashes, is killed or times out, that is an event and the others continue."""
