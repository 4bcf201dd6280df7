# SPDX-License-Identifier: Apache-2.0
"""Where `Change` is named by what state may hold from before there were doors."""

from pyflinklike.views.core.change import Change

__all__ = ["Change"]
