"""``python -m specplan`` is the command ``specplan``."""

from specplan.cli import main

if __name__ == "__main__":
    main()
