"""A plan under load as a reader sees it: the first screen, all of it with `-v`, plain data, a picture."""
