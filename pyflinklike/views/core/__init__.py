# SPDX-License-Identifier: Apache-2.0
"""What every view is, wherever it is kept: how rows come in, are stored, asked for and followed."""
