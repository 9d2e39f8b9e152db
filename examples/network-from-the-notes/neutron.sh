#!/usr/bin/env bash
# Show or change the networks of the emulator of `make run`, without the OpenStack client:
#   neutron.sh list              each network: its name and its description
#   neutron.sh rename NAME NEW   rename the network NAME, as a person does in Neutron
set -euo pipefail

of() { sed -n "/^  $OS_CLOUD:/,/^  [^ ]/s/^ *$1: //p" "$OS_CLIENT_CONFIG_FILE"; }

login=$(jq -n --arg user "$(of username)" --arg password "$(of password)" --arg project "$(of project_name)" '{auth: {
  identity: {methods: ["password"], password: {user: {name: $user, password: $password, domain: {name: "Default"}}}},
  scope: {project: {name: $project, domain: {name: "Default"}}}}}')
answer=$(curl -sS --fail -i -H 'Content-Type: application/json' -d "$login" "$(of auth_url)/auth/tokens")
token=$(sed -n 's/^x-subject-token: //Ip' <<<"$answer" | tr -d '\r')
endpoint=$(tail -n 1 <<<"$answer" | jq -r '[.token.catalog[] | select(.type == "network").endpoints[].url][0]')

neutron() { curl -sS --fail -X "$1" -H "X-Auth-Token: $token" "${@:3}" "${endpoint%/}/v2.0/$2"; }

case "${1-}" in
list) neutron GET networks | jq -r '.networks[] | "\(.name)  \(.description)"' | sort ;;
rename)
  id=$(neutron GET "networks?name=$2" | jq -re '.networks[0].id')
  neutron PUT "networks/$id" -d "$(jq -n --arg name "$3" '{network: {name: $name}}')" >/dev/null
  ;;
*) sed -n '2,4s/^# //p' "$0" && exit 2 ;;
esac
