"""`python -m stamo` is the command `stamo`."""

from stamo.cli.main import main

if __name__ == "__main__":
    main()
