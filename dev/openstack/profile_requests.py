"""Profile the API requests that ask for it.

A request with the header "X-Profile: NAME" runs under cProfile, and its profile is added to NAME.prof in the folder of
profiles, which python's pstats reads. Any other request runs as it is. The filter stands behind serial_requests, so
that one request at a time is profiled, and none while another one is at work.
"""

import cProfile
import os
import pstats
import re

_name = re.compile(r"[a-z][a-z-]*")


def filter_factory(_global_conf, folder):
    """Return a filter for api-paste.ini that profiles its application; folder is where the profiles are kept."""

    def make_filter(application):
        def profiled(environ, start_response):
            name = environ.get("HTTP_X_PROFILE", "")
            if not _name.fullmatch(name):
                return application(environ, start_response)
            profile = cProfile.Profile()
            try:
                return profile.runcall(application, environ, start_response)
            finally:
                path = os.path.join(folder, name + ".prof")
                stats = pstats.Stats(profile)
                if os.path.exists(path):
                    stats.add(path)
                stats.dump_stats(path)

        return profiled

    return make_filter
