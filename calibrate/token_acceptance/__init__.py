"""Token acceptance from all sources, brought to one definition."""
