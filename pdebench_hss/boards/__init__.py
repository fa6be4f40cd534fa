"""From records to tables: frames, intervals, ranking, comparison; writing boards, and reading them in any state."""
