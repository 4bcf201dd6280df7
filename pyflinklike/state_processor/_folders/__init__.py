# SPDX-License-Identifier: Apache-2.0
"""Folders with small files that no writer replaces, on this machine and where Hadoop reaches."""
