"""Types of the compiled cron rule; the documentation stands in cron_rule.pyx."""

from mainspring.wheel.cron import CronSpec

def date_occurs(spec: CronSpec) -> bool: ...
