"""Functions as tasks: a call becomes a job, and a job a call."""

from tenure.tasks.task import Call, Policy, Task

__all__ = ["Call", "Policy", "Task"]
