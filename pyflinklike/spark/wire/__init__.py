# SPDX-License-Identifier: Apache-2.0
"""How records, keys and outputs travel between Spark and the function."""
