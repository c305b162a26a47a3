"""What the commands do, as functions: each returns a result that shows itself, and neither prints nor keeps anything.

``import specplan as sp`` has all of them; nothing is imported before it is called.
"""
