# SPDX-License-Identifier: Apache-2.0
"""Keyed DataFrames: what a program calls."""
