"""Facts that the papers print: their tables and the constants of their figures, each number once, with its place.

`workshop.check_published` compares them with the papers' text, where that is at hand.
"""
