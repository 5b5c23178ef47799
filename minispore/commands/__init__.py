"""The program ``minispore``: ``cli.py`` reads the command line; larger commands are modules."""
