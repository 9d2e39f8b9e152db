"""Say what some of the controller's requests cost Neutron beside others that do the same.

`openstack costs` runs it. Deletions of networks: on condition of a revision, as the controller sends them, and without.
Ports: alone and in bulk, as the controller creates them and with less, and where the time goes. The figures are
milliseconds, the median of several rounds in which all sorts of requests take turns; ports are on a network that fills
up. The profile is of other requests, since a profiler makes each call slower; its shares are what to read.
"""

import argparse
import json
import os
import pstats
import statistics
import time
import urllib.request

import yaml

ALONE, BULK = 10, 25

# What shows in a profile, as parts that do not overlap.
DELETION_PARTS = [
    ("checking the condition", "revisions/revision_plugin.py", "_enforce_if_match_constraints"),
]
PORT_PARTS = [
    ("finding an address", "ipam_pluggable_backend.py", "allocate_ips_for_port"),
    ("checking whose network it is", "ownership_validation.py", "_validate_network_tenant_ownership"),
    ("counting the network's subnets for the segments plugin", "segments/plugin.py", "_notify_port_created_or_deleted"),
    ("asking the QoS plugin", "qos_plugin.py", "_validate_create_port_callback"),
    ("security groups", "securitygroups_db.py", "_ensure_default_security_group_handler"),
    ("security groups", "securitygroups_db.py", "_get_security_groups_on_port"),
    ("quota", "pecan_wsgi/hooks/quota_enforcement.py", "before"),
    ("policy of the answer", "pecan_wsgi/hooks/policy_enforcement.py", "after"),
]


class Cloud:
    """Neutron as a tenant of the cloud "tenant"."""

    def __init__(self):
        with open(os.environ["OS_CLIENT_CONFIG_FILE"], encoding="utf-8") as file:
            auth = yaml.safe_load(file)["clouds"]["tenant"]["auth"]
        domain = {"id": "default"}
        headers, answer = _send("POST", auth["auth_url"] + "/auth/tokens", {"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": auth["username"], "password": auth["password"], "domain": domain}}},
            "scope": {"project": {"name": auth["project_name"], "domain": domain}},
        }}, {})
        self.token = headers["X-Subject-Token"]
        self.endpoint = next(
            endpoint["url"].rstrip("/") + "/v2.0/"
            for service in answer["token"]["catalog"] if service["type"] == "network"
            for endpoint in service["endpoints"] if endpoint["interface"] == "public")

    def send(self, method, path, body=None, **headers):
        """Send a request and return its answer. In the headers' names, _ stands for -."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return _send(method, self.endpoint + path, body, {"X-Auth-Token": self.token, **headers})[1]

    def timed(self, *request, **headers):
        """Send a request and return how many milliseconds it took."""
        began = time.monotonic()
        self.send(*request, **headers)
        return (time.monotonic() - began) * 1000


def _send(method, url, body, headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers}, method=method)
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = answer.read()
        return answer.headers, json.loads(text) if text else None


def sorts(network, subnet):
    """Return the bodies of ports by what tells them from those that the controller creates."""
    ours = {
        "network_id": network, "device_owner": "network-controller:port", "name": "costs", "description": "x" * 60,
        "admin_state_up": True, "fixed_ips": [{"subnet_id": subnet}],
    }
    addresses = (f"10.99.{high}.{low}" for high in range(8, 16) for low in range(1, 255))
    return {
        "as the controller creates it": lambda: ours,
        "with an address that is asked for":
            lambda: {**ours, "fixed_ips": [{"subnet_id": subnet, "ip_address": next(addresses)}]},
        "without security groups": lambda: {**ours, "security_groups": []},
        "without port security": lambda: {**ours, "security_groups": [], "port_security_enabled": False},
        "without an address": lambda: {**ours, "fixed_ips": []},
    }


def deletion(cloud, conditional, **headers):
    """Delete a network with a subnet that was made for it, and return how many milliseconds that took."""
    network = cloud.send("POST", "networks", {"network": {"name": "costs"}})["network"]["id"]
    cloud.send("POST", "subnets", {"subnet": {"network_id": network, "cidr": "10.98.0.0/24", "ip_version": 4}})
    revision = cloud.send("GET", "networks/" + network)["network"]["revision_number"]
    if conditional:
        headers["If_Match"] = f"revision_number={revision}"
    return cloud.timed("DELETE", "networks/" + network, **headers)


def turns(rounds):
    """Yield True and False once a round, and let either be the first as often as the other."""
    for i in range(rounds):
        yield from (True, False) if i % 2 else (False, True)


def measure_deletions(cloud, rounds, folder):
    """Print what deletions of networks with a subnet take, and where their time goes."""
    took = {True: [], False: []}
    for conditional in turns(rounds * ALONE):
        took[conditional].append(deletion(cloud, conditional))
    heads = {True: "on condition of its revision", False: "without"}
    print("| deletion of a network with a subnet | ms |\n| --- | --- |")
    for conditional, row in took.items():
        print(f"| {heads[conditional]} | {statistics.median(row):.0f} |")

    profiles = {True: "deletion-conditional", False: "deletion"}
    forget(folder, profiles.values())
    for conditional in turns(rounds * ALONE):
        deletion(cloud, conditional, X_Profile=profiles[conditional])
    explain(folder, {heads[c]: (name, rounds * ALONE) for c, name in profiles.items()}, DELETION_PARTS)


def measure_ports(cloud, network, subnet, rounds):
    """Print what creates of ports take."""
    took, bodies = {}, sorts(network, subnet)
    for _ in range(rounds):
        for name, body in bodies.items():
            alone = sum(cloud.timed("POST", "ports", {"port": body()}) for _ in range(ALONE)) / ALONE
            bulk = cloud.timed("POST", "ports", {"ports": [body() for _ in range(BULK)]}) / BULK
            took.setdefault(name, []).append((alone, bulk))
    print(f"| a port | ms alone | ms in bulk of {BULK} | bulk ÷ alone |\n| --- | --- | --- | --- |")
    for name, rows in took.items():
        alone, bulk = (statistics.median(column) for column in zip(*rows))
        print(f"| {name} | {alone:.0f} | {bulk:.0f} | {bulk / alone:.2f} |")


def explain_ports(cloud, network, subnet, folder):
    """Have Neutron profile creates of ports, and print where their time goes."""
    body = sorts(network, subnet)["as the controller creates it"]
    forget(folder, ["port-alone", "port-bulk"])
    for _ in range(ALONE):
        cloud.send("POST", "ports", {"port": body()}, X_Profile="port-alone")
    cloud.send("POST", "ports", {"ports": [body() for _ in range(BULK)]}, X_Profile="port-bulk")
    explain(folder, {"alone": ("port-alone", ALONE), f"in bulk of {BULK}": ("port-bulk", BULK)}, PORT_PARTS)


def forget(folder, names):
    """Remove the profiles of an earlier run."""
    for name in names:
        path = os.path.join(folder, name + ".prof")
        if os.path.exists(path):
            os.remove(path)


def explain(folder, profiles, parts):
    """Print a column for each profile, of which it is told how many resources it is of."""
    columns = []
    for name, resources in profiles.values():
        stats = pstats.Stats(os.path.join(folder, name + ".prof"))
        share = dict.fromkeys((label for label, _, _ in parts), 0.0)
        for (file, _, function), (_, _, _, whole, _) in stats.stats.items():
            for label, path, part in parts:
                if file.endswith(path) and function == part:
                    share[label] += whole / resources * 1000
        total = stats.total_tt / resources * 1000
        columns.append({**share, "all else": total - sum(share.values()), "together": total})
    print(f"\n| under a profiler | ms {' | ms '.join(profiles)} |\n| --- |{' --- |' * len(profiles)}")
    for label in columns[0]:
        print(f"| {label} | {' | '.join(f'{column[label]:.0f}' for column in columns)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often each sort of request is sent")
    parser.add_argument("--profiles", required=True, help="the folder in which Neutron keeps profiles")
    options = parser.parse_args()
    cloud = Cloud()
    measure_deletions(cloud, options.rounds, options.profiles)
    print()
    network = cloud.send("POST", "networks", {"network": {"name": "costs"}})["network"]["id"]
    try:
        subnet = cloud.send("POST", "subnets", {"subnet": {
            "network_id": network, "cidr": "10.99.0.0/20", "ip_version": 4,
            "allocation_pools": [{"start": "10.99.0.2", "end": "10.99.7.255"}]}})["subnet"]["id"]
        measure_ports(cloud, network, subnet, options.rounds)
        explain_ports(cloud, network, subnet, options.profiles)
    finally:
        for port in cloud.send("GET", f"ports?network_id={network}&fields=id")["ports"]:
            cloud.send("DELETE", "ports/" + port["id"])
        cloud.send("DELETE", "networks/" + network)


if __name__ == "__main__":
    main()
