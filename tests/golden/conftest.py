"""The shapes and the reader lie beside the tests, which import them by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
