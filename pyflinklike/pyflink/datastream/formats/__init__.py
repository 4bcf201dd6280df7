# SPDX-License-Identifier: Apache-2.0
"""Rows as bytes, under the names of `pyflink.datastream.formats`: JSON and CSV."""
