"""What a check tells."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. mend: what to do about it, empty where all is good."""

    name: str
    good: bool
    says: str
    mend: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
