# SPDX-License-Identifier: Apache-2.0
"""A whole query under a simulated Spark: one thread, no JVM, no clock, one seed."""
