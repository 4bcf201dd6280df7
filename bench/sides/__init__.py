# SPDX-License-Identifier: Apache-2.0
"""One module per side; `run.py` says which runs what."""
