"""The public scoreboard: what others measured beside what is predicted, with errors, coverage and regret."""
