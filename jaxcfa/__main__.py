"""`python -m jaxcfa`: the command."""

from .cli import main

main()
