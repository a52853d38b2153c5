"""All claims about the Python package, for `python -m unittest claims`."""

from claims_about_matrices import *  # noqa: F401,F403
from claims_about_records import *  # noqa: F401,F403
from claims_about_the_command import *  # noqa: F401,F403
