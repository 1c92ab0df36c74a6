"""``python -m mainspring.engine`` is ``mainspring``."""

import sys

from mainspring.engine.cli import main

sys.exit(main())
