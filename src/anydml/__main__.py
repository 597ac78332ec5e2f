"""`python -m anydml` is `anydml`."""

from anydml.cli.app import main

if __name__ == "__main__":
    main()
