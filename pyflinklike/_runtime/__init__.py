# SPDX-License-Identifier: Apache-2.0
"""Runs a user's function over keyed records, without knowing the host."""
