//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestPictureShowsChanges(t *testing.T) {
	before := picture{network: resource{"id": "n"}, subnet: resource{
		"gateway_ip": "192.168.0.1", "allocation_pools": []any{map[string]any{"start": "192.168.0.2", "end": "192.168.0.9"}},
	}}
	after := picture{network: before.network, subnet: resource{"gateway_ip": nil, "allocation_pools": []any{}}}
	all := strings.Join(after.render(before), "\n")
	for _, want := range []string{
		"network   id           n\n", "gateway      none   (was 192.168.0.1)", "none   (was 192.168.0.2-192.168.0.9)",
	} {
		expect.Contains(t, all, want, "the picture")
	}
}

func TestCloudOfEnvironment(t *testing.T) {
	for sentence, test := range map[string]struct {
		environ []string
		want    string
	}{
		"the variables' names are the fields' names": {
			environ: []string{
				"HOME=/home", "OS_AUTH_URL=http://keystone", "OS_USERNAME=u", "OS_PASSWORD=a=b", "OS_PROJECT_NAME=p",
				"OS_USER_DOMAIN_NAME=Default", "OS_REGION_NAME=R", "OS_CACERT=/ca.pem", "OS_CERT=",
			},
			want: `{"clouds":{"environment":{"auth":{"auth_url":"http://keystone","password":"a=b",` +
				`"project_name":"p","user_domain_name":"Default","username":"u"},` +
				`"cacert":"/ca.pem","region_name":"R"}}}`,
		},
		"older names count where the newer ones are not set before them": {
			environ: []string{"OS_USERID=u", "OS_PROJECT_ID=new", "OS_TENANT_ID=old"},
			want:    `{"clouds":{"environment":{"auth":{"project_id":"new","user_id":"u"}}}}`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := json.Marshal(cloudOfEnvironment(test.environ))
			expect.NoError(t, err)
			expect.Equal(t, test.want, string(got), "the output")
		})
	}
}

func TestOnlyWhatBearsTheMarksIsSeenAndRemoved(t *testing.T) {
	t.Setenv("OS_CLOUD", "")
	t.Setenv("OS_AUTH_URL", "")
	listener, err := neutrontest.New(neutrontest.Options{}).Listen("127.0.0.1:0", nil)
	expect.NoError(t, err)
	defer listener.Close()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	expect.NoError(t, os.WriteFile(file, []byte(listener.CloudsYAML()), 0o600))
	c, err := openEmulator(t.Context(), file, emulatorCloud)
	expect.NoError(t, err)
	create := func(collection string, fields resource) resource {
		t.Helper()
		var answer map[string]resource
		body := map[string]any{kindOf(collection): fields}
		expect.NoError(t, c.call(t.Context(), http.MethodPost, collection, body, &answer))
		return answer[kindOf(collection)]
	}
	m := marks{network: "mine [owner=c/o]", subnet: "[owner=c/o]"}
	foreign := create("networks", resource{"name": "example", "description": "somebody else's"})
	if _, err := c.picture(t.Context(), m); err == nil {
		t.Error("there is a picture of a network that does not exist")
	}
	ours := create("networks", resource{"name": "example", "description": m.network})
	create("subnets", resource{
		"network_id": ours.id(), "cidr": "192.168.0.0/16", "ip_version": 4, "description": m.subnet,
	})

	p, err := c.picture(t.Context(), m)
	expect.NoError(t, err)
	if p.network.id() != ours.id() || p.subnet.text("network_id") != ours.id() {
		t.Errorf("the picture is of network %s, want %s", p.network.id(), ours.id())
	}
	create("networks", resource{"name": "bare", "description": ""})
	if removed, err := c.remove(t.Context(), marks{}); err == nil || len(removed) > 0 {
		t.Errorf("without a mark, %v was removed; %v", removed, err)
	}
	const of = "[owner=c/p]"
	port := create("ports", resource{"network_id": ours.id(), "description": of})
	foreignPort := create("ports", resource{"network_id": foreign.id(), "description": of})
	otherPort := create("ports", resource{"network_id": ours.id(), "description": "[owner=other/p]"})
	ports, err := c.ports(t.Context(), ours.id(), "c")
	if err != nil || len(ports) != 1 || ports[0].id() != port.id() {
		t.Errorf("the ports of the cluster on the network are %v, %v; want %s", ports, err, port.id())
	}
	if removed, err := c.remove(t.Context(), m); err == nil || len(removed) > 0 {
		t.Errorf("with another cluster's port on it, %v was removed; %v", removed, err)
	}
	expect.NoError(t, c.call(t.Context(), http.MethodDelete, "ports/"+otherPort.id(), nil, nil))
	removed, err := c.remove(t.Context(), m)
	if diff := cmp.Diff([]string{ours.id()}, removed); err != nil || diff != "" {
		t.Errorf("removed (-want +got):\n%s%v", diff, err)
	}
	for path, want := range map[string]bool{
		"ports/" + foreignPort.id(): true, "networks/" + foreign.id(): true, "networks/" + ours.id(): false,
	} {
		if err := c.call(t.Context(), http.MethodGet, path, nil, nil); (err == nil) != want {
			t.Errorf("%s: error %v, want it there: %t", path, err, want)
		}
	}
}
