"""Create every table of the installed Neutron in an empty SQLite database.

Neutron's Alembic migrations alter constraints in ways that SQLite does not
know, so they cannot build this database. The models of the release carry the
same schema; after this, `neutron-db-manage stamp heads` records the revision.
One migration's rows matter: the rules that a new security group gets, which are
in the database from Neutron 23 on. They are taken from that migration.

Usage: neutron_tables.py DATABASE_FILE
"""

import importlib.util
import pathlib
import sys

import sqlalchemy
from neutron.db import migration
from neutron.db.migration.models import head


def add_group_rules(connection, tables):
    """Insert the rules of new security groups, where the release has a table of them."""
    versions = pathlib.Path(migration.__file__).parent / "alembic_migrations" / "versions"
    for path in versions.glob("*/expand/*_security_group_default_rules.py"):
        spec = importlib.util.spec_from_file_location("security_group_default_rules", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for rule in module.default_template_rules:
            standard = connection.execute(sqlalchemy.insert(tables["standardattributes"]).values(
                resource_type=module.table_name, description=rule.pop("description")))
            connection.execute(sqlalchemy.insert(tables[module.table_name]).values(
                standard_attr_id=standard.inserted_primary_key[0], **rule))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    engine = sqlalchemy.create_engine("sqlite:///" + sys.argv[1])
    with engine.connect() as connection:
        # The journal mode is a property of the file: every later connection
        # has readers that do not wait for the writer.
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    metadata = head.get_metadata()
    metadata.create_all(engine)
    with engine.begin() as connection:
        add_group_rules(connection, metadata.tables)


if __name__ == "__main__":
    main()
