"""Records to tables: frames, intervals, ranking, comparison; boards written, and read back in any state."""
