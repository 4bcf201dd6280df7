# SPDX-License-Identifier: Apache-2.0
"""Working state in Python dicts."""
