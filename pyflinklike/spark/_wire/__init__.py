# SPDX-License-Identifier: Apache-2.0
"""The form in which records, keys and outputs travel between Spark and the function."""
