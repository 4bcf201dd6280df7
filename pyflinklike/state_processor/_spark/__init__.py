# SPDX-License-Identifier: Apache-2.0
"""Savepoints of a query: the state it begins with, and the state that a batch writes."""
