# SPDX-License-Identifier: Apache-2.0
"""Logs of key groups as columns: the contents of states, without their program or a host.

No object is made for an entry.
"""
