"""``python -m ecsim``."""

import sys

from ecsim.cli import main

sys.exit(main())
