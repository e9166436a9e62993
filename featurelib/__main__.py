"""`python -m featurelib` is the command `featurelib`."""

from featurelib.cli.start import main

if __name__ == "__main__":
    main()
