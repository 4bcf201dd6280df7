# SPDX-License-Identifier: Apache-2.0
"""The SQLite file of a view: its tables and transactions, and the detection of damage."""
