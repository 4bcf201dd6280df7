# SPDX-License-Identifier: Apache-2.0
"""Checks and decisions of the driver before a query starts."""
