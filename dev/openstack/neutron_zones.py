"""Give Neutron's networks availability zones, by a DHCP agent of each that runs nowhere.

A zone is there for networks as soon as the table of agents has a DHCP agent of
it: a network that asks for the zone is refused without one, and nobody looks
whether the agent is switched on or when it was last heard of. These are
switched off, since Neutron passes over such agents where it schedules networks
and looks for silent ones. Everything but the zones stays as it is without them.

Usage: neutron_zones.py DATABASE_FILE ZONE...
"""

import datetime
import sys

import sqlalchemy
from neutron.db.models import agent
from neutron_lib import constants
from neutron_lib.agent import topics

# Nobody has heard of these agents.
NEVER = datetime.datetime(1970, 1, 1)


def dhcp_agent(zone):
    """Return the row of a zone's agent; the columns that are left out have defaults."""
    return {
        "agent_type": constants.AGENT_TYPE_DHCP, "binary": constants.AGENT_PROCESS_DHCP, "topic": topics.DHCP_AGENT,
        "host": "nowhere-in-" + zone, "availability_zone": zone, "admin_state_up": False,
        "description": "stands for the zone and runs nowhere", "configurations": "{}",
        "created_at": NEVER, "started_at": NEVER, "heartbeat_timestamp": NEVER,
    }


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    database, *zones = sys.argv[1:]
    engine = sqlalchemy.create_engine("sqlite:///" + database)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.insert(agent.Agent.__table__), [dhcp_agent(zone) for zone in zones])


if __name__ == "__main__":
    main()
