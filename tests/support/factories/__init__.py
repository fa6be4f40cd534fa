"""Makers of what tests need: tasks that exist on paper only, training sets, and trials and boards that nobody ran."""
