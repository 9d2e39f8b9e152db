"""How long a real Neutron takes to list many networks, each with a subnet and a port.

It makes one network by the API and copies its rows in Neutron's SQLite database, since creating all of them would take
hours. Then it lists each kind as an audit of the controller does, page by page; with nothing but ids and revisions; as
an administrator; and with the policy that docs/sizing.md recommends. At the end it removes the copies.

Usage: dev/openstack/openstack run -- python3 test/bench/lists.py 1000 10000
"""
import json
import os
import sqlite3
import sys
import time
import urllib.request
import uuid
from contextlib import closing

import yaml

PAGE = 1000
MARKER = "[owner=lists/lists]"
# What an audit asks for. Fields do not change much: Neutron reads all columns anyway.
FIELDS = {
    "networks": "id name description revision_number admin_state_up mtu port_security_enabled subnets dns_domain tags "
                "qos_policy_id shared router:external availability_zone_hints",
    "subnets": "id name description revision_number network_id cidr gateway_ip allocation_pools enable_dhcp "
               "dns_nameservers host_routes ipv6_address_mode ipv6_ra_mode subnetpool_id service_types",
    "ports": "id name description revision_number network_id admin_state_up fixed_ips mac_address security_groups "
             "port_security_enabled qos_policy_id dns_name allowed_address_pairs device_owner device_id",
}
# The policy that asks for the port's project first. The default asks for the owner of the port's network first.
POLICY = '"get_port": "rule:admin_only or role:service or role:reader and project_id:%(project_id)s or ' \
    'role:reader and rule:network_owner"\n'
# What no list reads: the rows by which the OVN driver would create each copy in OVN, and the pools of free addresses.
NOT_COPIED = {"ovn_revision_numbers", "ipamsubnets", "ipamallocations", "ipamallocationpools"}


class Neutron:
    """Requests with the credentials of a cloud. Lists are of its project."""

    def __init__(self, config, cloud):
        cloud = yaml.safe_load(open(config))["clouds"][cloud]["auth"]
        domain = {"id": "default"}
        answer, headers = self.send("POST", cloud["auth_url"] + "/auth/tokens", {"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": cloud["username"], "domain": domain, "password": cloud["password"]}}},
            "scope": {"project": {"name": cloud["project_name"], "domain": domain}}}}, {})
        self.headers = {"X-Auth-Token": headers["X-Subject-Token"]}
        self.project = answer["token"]["project"]["id"]
        self.url = next(e["url"] for s in answer["token"]["catalog"] if s["type"] == "network"
                        for e in s["endpoints"] if e["interface"] == "public").rstrip("/") + "/v2.0/"

    def send(self, method, url, body=None, headers=None):
        request = urllib.request.Request(
            url, None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json", **(self.headers if headers is None else headers)}, method=method)
        with urllib.request.urlopen(request, timeout=600) as answer:
            content = answer.read()
            return json.loads(content or b"null"), answer.headers

    def make(self, kind, **fields):
        return self.send("POST", self.url + kind + "s", {kind: fields})[0][kind]

    def list(self, kind, fields):
        """Lists a kind. Returns how many there are, and the seconds."""
        query = "?limit=%d&project_id=%s&fields=%s" % (PAGE, self.project, "&fields=".join(fields.split()))
        began, total, marker = time.monotonic(), 0, ""
        while True:
            found = self.send("GET", self.url + kind + query + marker)[0][kind]
            total += len(found)
            if len(found) < PAGE:
                return total, time.monotonic() - began
            marker = "&marker=" + found[-1]["id"]


def copy_rows(db, network, copies, last_rows):
    """Copies all rows about a network, its subnets and ports. last_rows gets the last row of each table before it."""
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
              if name not in NOT_COPIED]
    columns = {t: list(db.execute("PRAGMA table_info(%s)" % t)) for t in tables}
    ids = {network}
    for table in ("subnets", "ports", "networksegments"):
        ids |= {i for (i,) in db.execute("SELECT id FROM %s WHERE network_id = ?" % table, (network,))}
    attributes = set()
    for table in ("networks", "subnets", "ports", "networksegments"):
        for i in ids:
            attributes |= {a for (a,) in db.execute("SELECT standard_attr_id FROM %s WHERE id = ?" % table, (i,))}
    rows = []  # of (statement, values, is the column an attribute's number, is it the row's own id)
    for table in tables:
        names = [c[1] for c in columns[table]]
        numbered = [n == "standard_attr_id" or table == "standardattributes" and n == "id" for n in names]
        own = [c[5] > 0 and n == "id" and not numbered[i] for i, (n, c) in enumerate(zip(names, columns[table]))]
        statement = "INSERT INTO %s VALUES (%s)" % (table, ",".join("?" * len(names)))
        for row in list(db.execute("SELECT * FROM " + table)):
            if any(v in attributes if numbered[i] else v in ids for i, v in enumerate(row)):
                rows.append((statement, row, numbered, own))
    for table in tables:
        last_rows.setdefault(table, db.execute("SELECT coalesce(max(rowid), 0) FROM " + table).fetchone()[0])
    rows.sort(key=lambda r: "INTO standardattributes" not in r[0])
    (last,) = db.execute("SELECT max(id) FROM standardattributes").fetchone()
    for _ in range(copies):
        new = {i: str(uuid.uuid4()) for i in ids}
        number = {}
        for a in attributes:
            last += 1
            number[a] = last
        for statement, row, numbered, own in rows:
            db.execute(statement, [
                number[v] if numbered[i] and v in number else new[v] if v in new else
                v if not own[i] else None if isinstance(v, int) else str(uuid.uuid4()) for i, v in enumerate(row)])


def remove(db, last_rows):
    """Removes the copies."""
    for table, last in last_rows.items():
        db.execute("DELETE FROM %s WHERE rowid > ?" % table, (last,))


def changed(database, change, *arguments):
    """Has the database changed in one transaction."""
    with closing(sqlite3.connect(database, timeout=20)) as db, db:
        change(db, *arguments)


def main():
    config = os.environ["OS_CLIENT_CONFIG_FILE"]
    folder = os.path.join(os.path.dirname(config), "neutron")
    database, policy = os.path.join(folder, "neutron.db"), os.path.join(folder, "policy.d", "lists.yaml")
    tenant, admin = Neutron(config, "tenant"), Neutron(config, "admin")
    admin.project = tenant.project
    network = tenant.make("network", name="lists", description=MARKER)["id"]
    copies, made = {}, 1
    try:
        tenant.make("subnet", network_id=network, cidr="192.168.0.0/16", ip_version=4, description=MARKER)
        tenant.make("port", network_id=network, description=MARKER)
        print("| of each | kind | found | as an audit, s | ids and revisions, s | administrator, s | policy, s |\n"
              "| --- | --- | --- | --- | --- | --- | --- |")
        for size in sorted(map(int, sys.argv[1:])):
            changed(database, copy_rows, network, size - made, copies)
            made = size
            for kind, fields in FIELDS.items():
                found, whole = tenant.list(kind, fields)
                _, short = tenant.list(kind, "id revision_number")
                _, administrators = admin.list(kind, fields)
                with open(policy, "w") as file:
                    file.write(POLICY)
                _, ordered = tenant.list(kind, fields)
                os.remove(policy)
                print("| %d | %s | %d | %.1f | %.1f | %.1f | %.1f |" % (
                    size, kind, found, whole, short, administrators, ordered), flush=True)
    finally:
        changed(database, remove, copies)
        for port in tenant.send("GET", tenant.url + "ports?network_id=" + network)[0]["ports"]:
            tenant.send("DELETE", tenant.url + "ports/" + port["id"])
        tenant.send("DELETE", tenant.url + "networks/" + network)


if __name__ == "__main__":
    main()
