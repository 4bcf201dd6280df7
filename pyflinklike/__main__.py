# SPDX-License-Identifier: Apache-2.0
"""The command line where no console script is installed: `python -m pyflinklike state ...`."""

import sys

from pyflinklike.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
