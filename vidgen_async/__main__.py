"""``python -m vidgen_async``: the command ``vidgen``."""

from vidgen_async.cli import main

if __name__ == "__main__":
    main()
