"""Let one API request at a time use Neutron's SQLite database.

neutron-server runs every request in a green thread of one system thread. A
SQLite connection that waits for a lock blocks that system thread, and with it
the green thread that holds the lock: nobody moves until the busy timeout is
over, and the request fails with "database is locked". MySQL, which Neutron is
made for, waits on a socket, where green threads take turns. Neutron 26 with
SQLAlchemy 2 fails so from ten clients on; Neutron 21 with SQLAlchemy 1.4 does
not, and is no slower for the filter.

Two things put that right without a change to what Neutron answers:

* a WSGI filter, placed behind the token check, admits one request at a time.
  Connections, keep-alive and calls to Keystone stay concurrent;
* where a background task of Neutron's still meets a request, SQLite's refusal
  is reported to Neutron as what it is for other databases, a deadlock, and
  Neutron's own retry of deadlocks takes over.
"""

import threading

import sqlalchemy.exc
from oslo_db import exception
from oslo_db.sqlalchemy import exc_filters

# One of green threads where Neutron has replaced those of the system, as it had up to 26.
_turn = threading.Lock()


@exc_filters.filters("sqlite", sqlalchemy.exc.OperationalError, r"^.*database is locked.*")
def _locked_is_a_deadlock(error, _match, _engine_name, _is_disconnect):
    raise exception.DBDeadlock(error)


def filter_factory(_global_conf, **_local_conf):
    """Return a filter for api-paste.ini that runs its application one request at a time."""

    def make_filter(application):
        def one_at_a_time(environ, start_response):
            with _turn:
                return application(environ, start_response)

        return one_at_a_time

    return make_filter
