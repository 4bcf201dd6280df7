# SPDX-License-Identifier: Apache-2.0
"""The command line without an installed console script: `python -m pyflinklike state ...`."""

import sys

from pyflinklike.cli import main

if __name__ == "__main__":
    sys.exit(main())
