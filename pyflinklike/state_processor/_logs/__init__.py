# SPDX-License-Identifier: Apache-2.0
"""Reads logs of key groups as columns, without the program that wrote them and without a host.

The entries stay in Arrow's columns from the log to the result; no Python object is made for an entry.
"""
