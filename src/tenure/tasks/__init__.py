"""Tasks: functions whose calls are enqueued as jobs, and run by workers."""

from tenure.tasks.task import Call, Policy, Task

__all__ = ["Call", "Policy", "Task"]
