package inventory

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

const (
	mineID   = "11111111-aaaa-bbbb-cccc-dddddddddddd"
	theirsID = "99999999-aaaa-bbbb-cccc-dddddddddddd"
)

func TestARefusalNamesOnlyWhatIsTheStepsOwn(t *testing.T) {
	step := plan.Step{
		Action: plan.CreateSubnet, NetworkRef: plan.Ref{ID: mineID},
		Subnet: plan.Subnet{CIDR: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1")},
		Port:   plan.PortAttributes{MAC: "fa:16:3e:00:00:01", Addresses: []plan.PortAddress{{Address: netip.MustParseAddr("fd00::5")}}},
	}
	for said, want := range map[string]string{
		"Requested subnet with cidr: 10.0.0.0/24 for network: " + mineID + " overlaps with another subnet": "the same",
		"Cidr 10.0.0.0/24 of subnet " + theirsID + " overlaps with cidr 10.0.0.0/16 of subnet " + theirsID: "Cidr 10.0.0.0/24 of subnet (not shown) overlaps with cidr (not shown) of subnet (not shown)",
		"IP address fd00::5 is that of port " + theirsID + " with MAC fa:16:3e:99:99:99":                   "IP address fd00::5 is that of port (not shown) with MAC (not shown)",
		"IP address fd00::6 and 10.9.8.7, MAC FA:16:3E:00:00:01":                                           "IP address (not shown) and (not shown), MAC FA:16:3E:00:00:01",
		"project 0123456789abcdef0123456789abcdef may not":                                                 "project (not shown) may not",
		"Quota exceeded for resources: ['network']":                                                        "the same",
		"Invalid input for mtu. Reason: '70000' is too large - must be no larger than '65535'":             "the same",
		"There are one or more ports still in use on the network, id for these ports is: " + theirsID:      "There are one or more ports still in use on the network, id for these ports is: (not shown)",
	} {
		if want == "the same" {
			want = said
		}
		err := &client.Error{Kind: client.Invalid, Op: "create subnet", Reason: said, Status: http.StatusBadRequest}
		told, ok := errors.AsType[*client.Error](discreet(err, step))
		if !ok || told.Reason != want {
			t.Errorf("%q is told as\n%v, want\n%q", said, told, want)
		}
		expect.Equal(t, said, err.Reason, "the reason in the error of others")
	}
}

func TestARefusalOfAWriteIsDiscreet(t *testing.T) {
	b := newBench(t, Options{})
	b.put("a", ownerOf("o").Marker())
	b.audit(t)
	b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			return false
		}
		refuse(w, http.StatusConflict, "NetworkInUse", "Network a has port "+theirsID+".")
		return true
	})
	for _, step := range []plan.Step{
		{Action: plan.DeleteNetwork, Ref: plan.Ref{ID: "a"}},
		{Action: plan.UpdateNetwork, Ref: plan.Ref{ID: "a"}},
		{Action: plan.CreateNetwork, Attributes: plan.Attributes{Name: "n", Description: ownerOf("o").Marker()}},
		{Action: plan.AttachInterface, Ref: plan.Ref{ID: "p"}, RouterRef: plan.Ref{ID: "r"}},
	} {
		_, err := b.Apply(t.Context(), plan.Change{step})
		if !client.IsKind(err, client.InUse) || strings.Contains(err.Error(), theirsID) || !strings.Contains(err.Error(), "Network a has port") {
			t.Errorf("%s: %v", step.Action, err)
		}
	}
}

func TestPortsOfOtherObjectsAreNotNamed(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	b.put("a", ownerOf("o").Marker())
	b.audit(t)
	b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/ports") {
			return false
		}
		answer(w, http.StatusOK, `{"ports": [
			{"id": "`+theirsID+`", "name": "secret-name", "device_owner": "compute:x", "device_id": "secret-device",
				"project_id": "secret-project", "description": "secret text `+ownerOf("other").Marker()+`"},
			{"id": "`+mineID+`", "name": "vm", "device_owner": "compute:nova", "device_id": "d", "description": "x"}]}`)
		return true
	})
	found, err := b.Blockers(t.Context(), plan.Step{Action: plan.DeleteNetwork, Ref: plan.Ref{ID: "a"}})
	expect.NoError(t, err)
	text := found.String()
	if strings.Contains(text, "secret") || strings.Contains(text, theirsID) ||
		!strings.Contains(text, "a port of another object") || !strings.Contains(text, mineID) {
		t.Errorf("it says %q", text)
	}
}

// TestFloatingIPsOfOtherNetworksAreNotNamed: a router that a class gives to the Networks of several namespaces lists the
// floating IPs of all of them.
func TestFloatingIPsOfOtherNetworksAreNotNamed(t *testing.T) {
	const list = `{"floatingips": [
		{"id": "theirs", "floating_ip_address": "203.0.113.7", "fixed_ip_address": "10.9.0.7",
			"description": "` + "[owner=" + cluster + `/other]"},
		{"id": "operators", "floating_ip_address": "203.0.113.8", "fixed_ip_address": "10.9.0.8", "description": ""},
		{"id": "mine", "floating_ip_address": "203.0.113.9", "fixed_ip_address": "10.0.0.9",
			"description": "` + "[owner=" + cluster + `/port]"}]}`
	detach := plan.Step{
		Action: plan.DetachInterface, Ref: plan.Ref{ID: "p"}, NetworkRef: plan.Ref{ID: "a"}, RouterRef: plan.Ref{ID: "r"},
		Port: plan.PortAttributes{Addresses: []plan.PortAddress{{SubnetID: "sub-a"}}},
	}
	elsewhere := detach
	elsewhere.NetworkRef, elsewhere.Port = plan.Ref{ID: "unknown"}, plan.PortAttributes{}
	for sentence, test := range map[string]struct {
		step plan.Step
		want string
	}{
		"an interface: those in its subnet": {detach, "floating IP 203.0.113.9 (mine)"},
		"an unknown subnet: none":           {elsewhere, ""},
		"a gateway: those of other objects are counted": {
			plan.Step{Action: plan.UpdateGateway, Ref: plan.Ref{ID: "r"}}, "a floating IP of another object of this " +
				"cluster, floating IP 203.0.113.8 (operators), floating IP 203.0.113.9 (mine)",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			b := newBench(t, Options{})
			marker := ownerOf("o").Marker()
			b.put("a", marker)
			router := wireRouter{wireBase: wireBase{ID: "r", Description: marker, Created: created("2026-01-01T00:00:00Z")}}
			b.neutron.others = map[string][]item{"routers": {{router.ID, router}}}
			b.audit(t)
			b.neutron.answers("", "/floatingips", http.StatusOK, list)
			found, err := b.Blockers(t.Context(), test.step)
			if err != nil || found.String() != test.want {
				t.Errorf("it says %q, %v, want %q", found, err, test.want)
			}
		})
	}
}
