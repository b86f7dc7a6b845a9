"""``python -m vidgen_async.cli``."""

from vidgen_async.cli import main

if __name__ == "__main__":
    main()
