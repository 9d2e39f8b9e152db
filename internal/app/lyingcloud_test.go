package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/controller/portbinding"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// liar is in front of a tenant's own cloud, which is hers to the last answer.
type liar struct {
	cloud http.Handler

	mu sync.Mutex
	// refuses has the next request to Neutron get 401.
	refuses bool
	// claims is the Neutron that the catalog of the next log-in tells; empty for its own.
	claims string
	// answers are for requests to Neutron, by method; without one, the cloud answers.
	answers map[string]string
	status  int
	// asked are the requests to Neutron.
	asked []string
}

// ServeHTTP implements http.Handler.
func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/auth/tokens") {
		recorded := httptest.NewRecorder()
		l.cloud.ServeHTTP(recorded, r)
		body := recorded.Body.Bytes()
		if l.claims != "" {
			body = bytes.ReplaceAll(body, []byte("http://"+r.Host+"/networking"), []byte(strings.TrimSuffix(l.claims, "/")))
			l.claims = ""
		}
		w.Header().Set("X-Subject-Token", recorded.Header().Get("X-Subject-Token"))
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(body)
		return
	}
	l.asked = append(l.asked, r.Method+" "+r.URL.String())
	answer, lies := l.answers[r.Method]
	switch {
	case l.refuses:
		l.refuses = false
		w.WriteHeader(http.StatusUnauthorized)
	case lies:
		w.WriteHeader(l.status)
		_, _ = w.Write([]byte(answer))
	default:
		l.cloud.ServeHTTP(w, r)
	}
}

// heard returns which requests to Neutron had a text since the last call.
func (l *liar) heard(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, request := range l.asked {
		if strings.Contains(request, text) {
			found = append(found, request)
		}
	}
	l.asked = nil
	return found
}

const testNode = "node1"

var testParent = inventory.Parent{MAC: "fa:16:3e:00:00:01"}

// portAt makes a port in a cloud that bears the marker of a NetworkPort.
func portAt(t *testing.T, cloud *client.Cloud, owner plan.Owner) (id string) {
	t.Helper()
	post := func(of client.Collection, body map[string]any) string {
		made, err := cloud.CreateAll(t.Context(), "create", of, []map[string]any{body})
		var answer struct{ ID string }
		if err == nil {
			err = json.Unmarshal(made[0], &answer)
		}
		expect.NoError(t, err)
		return answer.ID
	}
	network := post(client.Collection{One: "network", Many: "networks"}, map[string]any{"name": "n"})
	return post(client.Collection{One: "port", Many: "ports"}, map[string]any{
		"network_id": network, "description": owner.Marker(),
	})
}

var testPort = &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: "team", UID: types.UID("p")}}

// binderOn attaches ports to nodes in a cloud.
func binderOn(nodes *client.Cloud) *binder {
	return &binder{
		p: &process{cluster: "c", access: &cloudAccess{cloud: nodes}}, forbidden: map[managed.CloudRef]refusal{},
	}
}

// in has all ports be in a cloud.
func (b *binder) in(ref managed.CloudRef, in inventory.Binder) *binder {
	b.reach = func(*cloudteamv1.NetworkPort, bool) (inventory.Binder, managed.CloudRef, error) { return in, ref, nil }
	return b
}

// listed is an Inventory of the ports of a user's cloud.
func listed(t *testing.T, cloud *client.Cloud) *inventory.Inventory {
	t.Helper()
	in := inventory.New(cloud, "c", inventory.Options{Ports: true, Tenant: inTeam.Namespace})
	expect.NoError(t, in.Audit(t.Context()))
	return in
}

// lying is a tenant's own cloud whose Neutron names a port, and that has said since then that its Neutron is the nodes'
// one. The next log-in tells the truth again.
func lying(t *testing.T) (l *liar, b *binder, in *inventory.Inventory, id string) {
	t.Helper()
	_, nodes := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	l = &liar{}
	hers, _ := cloudtest.Emulated(t, neutrontest.Options{}, func(cloud http.Handler) http.Handler {
		l.cloud = cloud
		return l
	})
	b = binderOn(nodes)
	id = portAt(t, hers, b.ownerOf(testPort))
	in = listed(t, hers)
	if _, err := b.ofTheNodes(t.Context(), inTeam, inventory.Binder{Inventory: in}); err == nil {
		t.Fatal("the clouds are one")
	}
	operators, err := nodes.Identity(t.Context())
	expect.NoError(t, err)
	truth, err := hers.Identity(t.Context())
	expect.NoError(t, err)
	l.mu.Lock()
	l.refuses, l.claims = true, operators.Endpoint
	l.mu.Unlock()
	list := client.Request{Op: "list", Method: http.MethodGet, Path: "networks"}
	if err := hers.Do(client.Within(t.Context(), truth), list); err == nil {
		t.Fatal("a list of one cloud was sent to another")
	}
	if said, _ := hers.Known(); !said.SameNeutron(operators) {
		t.Fatalf("the catalog says %s", said)
	}
	l.heard("")
	return l, b, in, id
}

// TestACatalogThatLiesOnceAttachesNothing: a tenant's own cloud says for one log-in that its Neutron is that of the
// nodes. That Neutron refuses the token, and the next log-in tells her own one again, which would take any port.
func TestACatalogThatLiesOnceAttachesNothing(t *testing.T) {
	portAnswer := func(id string) string {
		return fmt.Sprintf(`{"port": {"id": %q, "network_id": "n", "created_at": "2026-01-01T00:00:00Z",
			"binding:vif_type": "ovs"}}`, id)
	}
	forbidden := func(string) string {
		return `{"NeutronError": {"type": "PolicyNotAuthorized", "message": "rule:update_port:binding:host_id"}}`
	}
	for name, c := range map[string]struct {
		mode    cloudteamv1.AttachmentMode
		method  string
		status  int
		answer  func(id string) string
		refused bool
	}{
		"it binds the port": {
			mode: cloudteamv1.AttachmentOVS, method: http.MethodPut, status: http.StatusOK, answer: portAnswer,
		},
		"it forbids the binding, and the port would be plugged unbound": {
			mode: cloudteamv1.AttachmentOVN, method: http.MethodPut, status: http.StatusForbidden, answer: forbidden,
		},
		"it forbade another binding before": {
			mode: cloudteamv1.AttachmentOVN, method: http.MethodPut, status: http.StatusForbidden, answer: forbidden,
			refused: true,
		},
		"it has the port in a trunk": {
			mode: cloudteamv1.AttachmentTrunk, method: http.MethodGet, status: http.StatusOK, answer: func(id string) string {
				return fmt.Sprintf(`{"ports": [{"id": "parent", "trunk_details": {"trunk_id": "t", "sub_ports":
					[{"port_id": %q, "segmentation_id": 7}]}}]}`, id)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, b, in, id := lying(t)
			l.mu.Lock()
			l.status, l.answers = c.status, map[string]string{c.method: c.answer(id)}
			l.mu.Unlock()
			if c.refused {
				b.forbidden[inTeam] = refusal{portbinding.ErrForbidden, time.Now().Add(time.Hour)}
			}
			at := &cloudteamv1.PortAttachment{Mode: c.mode, Host: testNode, PortID: id}
			if c.mode == cloudteamv1.AttachmentTrunk {
				at.Host = ""
			}
			for range 2 { // the controller retries
				err := b.in(inTeam, inventory.Binder{Inventory: in}).Attach(t.Context(), testPort, at, testParent)
				if err == nil || errors.Is(err, portbinding.ErrForbidden) || at.VLAN != 0 {
					t.Errorf("the attachment is written: VLAN %d, %v", at.VLAN, err)
				}
			}
			expect.Empty(t, l.heard("/ports"), "her Neutron was asked")
		})
	}
}

// Nor does such a cloud learn the hardware addresses of the nodes, or say where a port is.
func TestACatalogThatLiesOnceLearnsNothing(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *binder, inventory.Binder, string) error{
		"detach": func(ctx context.Context, b *binder, in inventory.Binder, id string) error {
			return b.in(inTeam, in).Detach(ctx, testPort, id, testParent)
		},
		"detach a port that is not known": func(ctx context.Context, b *binder, in inventory.Binder, _ string) error {
			return b.in(inTeam, in).Detach(ctx, testPort, "unknown", testParent)
		},
		"verify": func(ctx context.Context, b *binder, in inventory.Binder, id string) error {
			_, err := b.in(inTeam, in).Verify(ctx, testPort, &cloudteamv1.PortAttachment{
				Mode: cloudteamv1.AttachmentOVN, Host: testNode, PortID: id,
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, b, in, id := lying(t)
			if err := ask(t.Context(), b, inventory.Binder{Inventory: in}, id); err == nil {
				t.Error("her Neutron's word counts")
			}
			expect.Empty(t, l.heard("/ports"), "her Neutron was asked")
		})
	}
}

// TestBindingCredentialsPlugNoPortOfAnotherCloudUnbound: ErrForbidden has the port plugged without a binding, by the id
// that a tenant's own cloud told.
func TestBindingCredentialsPlugNoPortOfAnotherCloudUnbound(t *testing.T) {
	_, nodes := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	hers, _ := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	b := binderOn(nodes)
	id := portAt(t, hers, b.ownerOf(testPort))
	in := inventory.Binder{Inventory: listed(t, hers), As: nodes}
	for _, refused := range []bool{false, true} {
		if refused {
			b.forbidden[inTeam] = refusal{portbinding.ErrForbidden, time.Now().Add(time.Hour)}
		}
		at := &cloudteamv1.PortAttachment{Mode: cloudteamv1.AttachmentOVN, Host: testNode, PortID: id}
		err := b.in(inTeam, in).Attach(t.Context(), testPort, at, testParent)
		if err == nil || errors.Is(err, portbinding.ErrForbidden) {
			t.Errorf("refused before: %t: the attachment is written: %v", refused, err)
		}
	}
}

// TestARefusalPlugsNoPortThatAnotherCloudTold: the Network's spec named a tenant's own cloud, which told an id, and names
// none now. An honest Pod's port was refused before.
func TestARefusalPlugsNoPortThatAnotherCloudTold(t *testing.T) {
	own, nodes := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	b := binderOn(nodes)
	id, victim := portAt(t, own, b.ownerOf(testPort)), portAt(t, own, plan.Owner{Cluster: "c", Object: "victim"})
	in := inventory.Binder{Inventory: inventory.New(own, "c", inventory.Options{Ports: true})}
	expect.NoError(t, in.Audit(t.Context()))
	attach := func(id string) error {
		return b.in(managed.CloudRef{}, in).Attach(t.Context(), testPort, &cloudteamv1.PortAttachment{
			Mode: cloudteamv1.AttachmentOVN, Host: testNode, PortID: id,
		}, testParent)
	}
	for range 2 {
		if err := attach(id); !errors.Is(err, portbinding.ErrForbidden) {
			t.Errorf("error %v, want ErrForbidden", err)
		}
		if err := attach(victim); err == nil || errors.Is(err, portbinding.ErrForbidden) {
			t.Errorf("a port of somebody else is plugged unbound: %v", err)
		}
	}
}

// TestWhoMayNotBindIsPluggedUnboundOnTheCloudsWord: a project of the nodes' cloud may have no right to bind. Its ports
// are plugged unbound, as long as that cloud has them.
func TestWhoMayNotBindIsPluggedUnboundOnTheCloudsWord(t *testing.T) {
	for name, binding := range map[string]bool{"its own credentials": false, "with --binding-cloud": true} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			calls := map[string]int{}
			hers, nodes := cloudtest.Emulated(t, neutrontest.Options{OnCall: func(c neutrontest.Call) {
				mu.Lock()
				defer mu.Unlock()
				calls[c.Method+" "+c.Path]++
			}}, nil)
			b := binderOn(nodes)
			id := portAt(t, hers, b.ownerOf(testPort))
			in := inventory.Binder{Inventory: listed(t, hers)}
			if binding {
				in.As = hers // has no right either
			}
			attach := func() error {
				return b.in(inTeam, in).Attach(t.Context(), testPort, &cloudteamv1.PortAttachment{
					Mode: cloudteamv1.AttachmentOVN, Host: testNode, PortID: id,
				}, testParent)
			}
			for range 2 {
				if err := attach(); !errors.Is(err, portbinding.ErrForbidden) {
					t.Errorf("error %v, want ErrForbidden", err)
				}
			}
			mu.Lock()
			expect.Equal(t, 1, calls["PUT /v2.0/ports/{id}"], "bindings that were tried, of %v", calls)
			mu.Unlock()
			// The Inventory still holds it.
			err := nodes.Do(t.Context(), client.Request{Op: "delete", Method: http.MethodDelete, Path: "ports/" + id})
			expect.NoError(t, err)
			if err := attach(); err == nil || errors.Is(err, portbinding.ErrForbidden) {
				t.Errorf("a port that is not in the nodes' cloud: %v", err)
			}
		})
	}
}
