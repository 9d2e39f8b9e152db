"""Bring Keystone's content to what this cloud declares, through its API.

Makes, or leaves as they are, the projects, users, role assignments, services
and endpoints. A run with other ports moves the endpoints. At the end a token
of each user is tried at Neutron.

Input is the environment: KEYSTONE_URL and NEUTRON_URL (without a version),
REGION, and ADMIN_PASSWORD, TENANT_PASSWORD, NEUTRON_PASSWORD.

Usage: identity.py ensure|check (check changes nothing and only tries the tokens)
"""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

# Proxies of the environment are for the world outside; both services are on
# loopback.
_http = urllib.request.build_opener(urllib.request.ProxyHandler({}))

# A first token makes Keystone load its catalogue, and the machine may be busy.
TIMEOUT_SECONDS = 60


def call(method, url, token=None, body=None):
    """Return (headers, decoded body) of one request; HTTPError for 4xx and 5xx."""
    request = urllib.request.Request(url, method=method)
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("X-Auth-Token", token)
    data = None if body is None else json.dumps(body).encode()
    with _http.open(request, data, timeout=TIMEOUT_SECONDS) as answer:
        text = answer.read()
        return answer.headers, json.loads(text) if text else None


class Identity:
    """Keystone as seen by one user, scoped to one project of the default domain."""

    def __init__(self, url, user, password, project):
        self.url = url + "/v3"
        domain = {"id": "default"}
        headers, answer = call("POST", self.url + "/auth/tokens", body={"auth": {
            "identity": {"methods": ["password"], "password": {
                "user": {"name": user, "domain": domain, "password": password}}},
            "scope": {"project": {"name": project, "domain": domain}},
        }})
        self.token = headers["X-Subject-Token"]
        self.catalog = answer["token"]["catalog"]

    def ensure(self, kind, collection, want, **query):
        """Return the id of the one object that matches query, made from want when there is none."""
        listing = f"{self.url}/{collection}?{urllib.parse.urlencode(query)}"
        found = call("GET", listing, self.token)[1][collection]
        if found:
            return found[0]["id"]
        return call("POST", f"{self.url}/{collection}", self.token, {kind: want})[1][kind]["id"]

    def ensure_user(self, name, password, project, role):
        """Make the user, with the role in the project."""
        project_id = self.ensure("project", "projects", {"name": project, "domain_id": "default"}, name=project)
        user_id = self.ensure(
            "user", "users", {"name": name, "domain_id": "default", "password": password}, name=name)
        role_id = call("GET", f"{self.url}/roles?name={role}", self.token)[1]["roles"][0]["id"]
        call("PUT", f"{self.url}/projects/{project_id}/users/{user_id}/roles/{role_id}", self.token)

    def ensure_endpoint(self, service_type, name, url, region):
        """Make the service and its three endpoints, and move those that point elsewhere."""
        service_id = self.ensure("service", "services", {"type": service_type, "name": name}, type=service_type)
        for interface in ("public", "internal", "admin"):
            endpoint_id = self.ensure(
                "endpoint", "endpoints",
                {"service_id": service_id, "interface": interface, "region_id": region, "url": url},
                service_id=service_id, interface=interface)
            endpoint = f"{self.url}/endpoints/{endpoint_id}"
            if call("GET", endpoint, self.token)[1]["endpoint"]["url"] != url:
                call("PATCH", endpoint, self.token, {"endpoint": {"url": url}})


def try_at_neutron(identity, user):
    """Read one page of networks at the endpoint that the user's own catalogue names."""
    url = next(
        endpoint["url"]
        for service in identity.catalog if service["type"] == "network"
        for endpoint in service["endpoints"] if endpoint["interface"] == "public")
    networks = call("GET", url + "/v2.0/networks?limit=1", identity.token)[1]
    if "networks" not in networks:
        raise ValueError(f"Neutron at {url} answered {user} without a list of networks")


def main():
    if sys.argv[1:] not in (["ensure"], ["check"]):
        sys.exit(__doc__)
    env = os.environ
    keystone, neutron = env["KEYSTONE_URL"], env["NEUTRON_URL"]
    admin = Identity(keystone, "admin", env["ADMIN_PASSWORD"], "admin")
    if sys.argv[1] == "ensure":
        admin.ensure_user("neutron", env["NEUTRON_PASSWORD"], "service", "admin")
        admin.ensure_user("tenant", env["TENANT_PASSWORD"], "tenant", "member")
        admin.ensure_endpoint("identity", "keystone", keystone + "/v3", env["REGION"])
        admin.ensure_endpoint("network", "neutron", neutron, env["REGION"])
        admin = Identity(keystone, "admin", env["ADMIN_PASSWORD"], "admin")
    try_at_neutron(admin, "admin")
    try_at_neutron(Identity(keystone, "tenant", env["TENANT_PASSWORD"], "tenant"), "tenant")


if __name__ == "__main__":
    try:
        main()
    except urllib.error.HTTPError as error:
        # Keystone's and Neutron's error bodies say what is wrong and hold no secret.
        sys.exit(f"{error.url} answered {error.code}: {error.read().decode(errors='replace')[:500]}")
    except (OSError, ValueError) as error:
        sys.exit(str(error))
