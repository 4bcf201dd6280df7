# SPDX-License-Identifier: Apache-2.0
"""Runs PyFlink's scripts without changes: `import pyflink...` means this library.

python -m pyflinklike.run job.py            # in a shell
pyflinklike.run.install()                   # in a program or test, before it imports pyflink
"""

from pyflinklike._exports import export_public
from pyflinklike.run.finder import install, uninstall

__all__ = ["install", "uninstall"]

export_public(globals())
