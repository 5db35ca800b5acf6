"""How laws (hypothesis) are tried: the same examples every time in CI, and no clock on a busy machine."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "kedge",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("kedge")
