"""Tables of papers, predicted from stated inputs and compared with the printed values.

Each paper's module has what `specplan.show.reproductions` shows: TITLE, REASONS below HEADING, BELOW (what the columns
mean), N_STEPS of progress, `cells`, their `summary` and `short_table`.
"""
