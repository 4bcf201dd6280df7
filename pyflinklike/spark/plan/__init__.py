# SPDX-License-Identifier: Apache-2.0
"""What is checked and settled on the driver before a query starts."""
