"""The public scoreboard: what others measured and what is predicted, with errors, coverage and regret."""
