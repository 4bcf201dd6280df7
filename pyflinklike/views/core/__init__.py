# SPDX-License-Identifier: Apache-2.0
"""What all views share, whatever their storage: rows come in, are stored, queried and followed."""
