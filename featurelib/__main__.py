"""`python -m featurelib` is the command `featurelib`."""

from featurelib.cli.app import main

if __name__ == "__main__":
    main()
