"""Serving under load: engines whose caches fill up, answers that come and go, and what their users see."""
