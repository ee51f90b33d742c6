"""``python -m modelflow``: the command line."""

from modelflow.cli.main import main

if __name__ == "__main__":
    main()
