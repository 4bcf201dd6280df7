# SPDX-License-Identifier: Apache-2.0
"""Views whose tables are in PostgreSQL: written by the executors, read from any machine."""
