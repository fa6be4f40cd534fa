"""`hss_fit`: an HSS matrix fitted to pairs without gradients."""

from .model import HSSFit

__all__ = ["HSSFit"]
