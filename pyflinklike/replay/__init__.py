# SPDX-License-Identifier: Apache-2.0
"""Logs of key groups as columns: what is in a state, without its program, a host, or an object per entry.

`table` replays the sections of one table, `keys`, `values` and `store_keys` bring its columns
into a form that other tools understand, `rows` puts these together.
"""
