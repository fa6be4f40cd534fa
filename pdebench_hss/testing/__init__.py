"""The contracts of models and tasks as test suites: for ``pdebench-hss check`` and for plugin authors' own tests."""

from .models import Case, cases
from .tasks import task_cases

__all__ = ["Case", "cases", "task_cases"]
