"""Create every table of the installed Neutron in an empty SQLite database.

Neutron's Alembic migrations alter constraints in ways that SQLite does not
know, so they cannot build this database. The models of the release carry the
same schema; after this, `neutron-db-manage stamp heads` records the revision.

Usage: neutron_tables.py DATABASE_FILE
"""

import sys

import sqlalchemy
from neutron.db.migration.models import head


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    engine = sqlalchemy.create_engine("sqlite:///" + sys.argv[1])
    with engine.connect() as connection:
        # The journal mode is a property of the file: every later connection
        # has readers that do not wait for the writer.
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    head.get_metadata().create_all(engine)


if __name__ == "__main__":
    main()
