package adversary

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/lanes"
	"cloudteam.ztgame.com/network-controller/test/proxy"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// listener hears what a cloud answers, and what it is asked.
type listener struct {
	next http.RoundTripper

	mu sync.Mutex
	// told are the ids that it told, and asked the requests by the ids in them.
	told  map[string]bool
	asked map[string]string
}

var (
	anyID  = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	itsOwn = regexp.MustCompile(`"id": ?"(` + anyID.String() + `)"`)
)

// RoundTrip implements http.RoundTripper.
func (l *listener) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	answer, err := l.next.RoundTrip(r)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(answer.Body)
		answer.Body = io.NopCloser(bytes.NewReader(text))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range anyID.FindAllString(r.URL.RequestURI()+" "+string(body), -1) {
		l.asked[id] = r.Method + " " + r.URL.RequestURI() + " " + string(body)
	}
	for _, found := range itsOwn.FindAllSubmatch(text, -1) {
		l.told[string(found[1])] = true
	}
	return answer, err
}

func newListener(next http.RoundTripper) *listener {
	return &listener{next: next, told: map[string]bool{}, asked: map[string]string{}}
}

// heard gives what one cloud told and another was asked about.
func heard(told, asked *listener) (wrong []string) {
	told.mu.Lock()
	ids := maps.Clone(told.told)
	told.mu.Unlock()
	asked.mu.Lock()
	defer asked.mu.Unlock()
	for id, request := range asked.asked {
		if ids[id] {
			wrong = append(wrong, id+" in "+request)
		}
	}
	return wrong
}

// origins are two clouds, the operator's and a tenant's own, and one controller for both.
type origins struct {
	*world
	who                *tenant
	operators, tenants *listener
	// secrets are clouds.yaml files by where they lead.
	secrets map[string]string
}

// TestAnIDIsWorthSomethingOnlyInTheCloudThatToldIt has a tenant use a cloud of its own, whose Neutron may tell any id,
// beside the operator's: with objects of all kinds that name each other, move, lose their Secrets, or have them lead to
// another cloud. The operator's Neutron is never asked about what the tenant's told, nor the tenant's about what the
// operator's told.
func TestAnIDIsWorthSomethingOnlyInTheCloudThatToldIt(t *testing.T) {
	if !virtualTime || openStack() {
		t.Skip("it needs two emulated clouds")
	}
	synctest.Test(t, func(t *testing.T) {
		o := newOrigins(t)
		lanes.Draw(t, func(r *rapid.T) { o.hold(r) })
		o.operators.mu.Lock()
		o.tenants.mu.Lock()
		defer o.operators.mu.Unlock()
		defer o.tenants.mu.Unlock()
		if len(o.operators.told) < 20 || len(o.tenants.told) < 20 {
			t.Errorf("the clouds told %d and %d ids", len(o.operators.told), len(o.tenants.told))
		}
	})
}

func newOrigins(t *testing.T) *origins {
	t.Helper()
	w := newSurroundings(t)
	o := &origins{world: w, operators: newListener(w.habits.Next), secrets: map[string]string{}}
	w.habits.Next = o.operators
	own := neutrontest.New(neutrontest.Options{Delay: neutrontest.FixedDelay(5 * time.Millisecond)})
	serves := own.Serve(w.Listen("own"), nil)
	t.Cleanup(func() { _ = serves.Close() })
	dir := t.TempDir()
	clouds, front := filepath.Join(dir, "own.yaml"), filepath.Join(dir, "front.yaml")
	expect.NoError(t, os.WriteFile(clouds, []byte(serves.CloudsYAML()), 0o600))
	direct := harness.Open(t, clouds, cloudName)
	o.tenants = newListener(w.Transport)
	keystone, neutron, err := harness.FrontCloud(clouds, front, []string{cloudName}, direct.Client.Endpoint,
		proxy.Options{Listener: w.Listen("own-keystone"), Transport: w.Transport},
		proxy.Options{Listener: w.Listen("own-neutron"), Transport: o.tenants})
	expect.NoError(t, err)
	t.Cleanup(neutron.Close)
	t.Cleanup(keystone.Close)
	// Both end with the test, and with what is in them.
	for _, path := range []string{clouds, w.CloudsFile} {
		admin, err := harness.LogIn(t.Context(), path, "admin")
		expect.NoError(t, err)
		outside, err := admin.Create(t.Context(), "networks", harness.Resource{"name": "external", "router:external": true})
		expect.NoError(t, err)
		_, err = admin.Create(t.Context(), "subnets", harness.Resource{
			"network_id": outside.ID(), "ip_version": 4, "cidr": "203.0.113.0/24",
		})
		expect.NoError(t, err)
	}
	o.secrets["own"] = harness.CloudsOf(t, front, cloudName, nil)
	o.secrets["another project"] = harness.CloudsOf(t, w.clouds, otherCloud, nil)
	w.arguments = []string{
		"--allowed-identity-endpoints=" + w.keystone.URL().String() + "," + keystone.URL().String(), "--orphan-grace=2s",
	}
	w.start()
	return o
}

// hold takes a new namespace through drawn steps.
func (o *origins) hold(r *rapid.T) {
	var err error
	o.who, err = o.newEditor("tenant-" + string(uuid.NewUUID())[:8])
	expect.NoError(r, err)
	expect.NoError(r, o.openNamespace(o.t.Context(), o.who.name, true))
	o.secret(r, "own")
	for _, name := range []string{"a", "b"} {
		o.create(r, "networks", name)
		o.create(r, "securitygroups", name)
		o.create(r, "networkports", name)
		o.create(r, "floatingips", name)
	}
	kind := rapid.SampledFrom([]string{"networks", "securitygroups", "networkports", "floatingips"})
	name := rapid.SampledFrom([]string{"a", "b"})
	r.Repeat(map[string]func(*rapid.T){
		"create": func(r *rapid.T) { o.create(r, kind.Draw(r, "kind"), name.Draw(r, "name")) },
		"delete": func(r *rapid.T) {
			v1, ctx, one := o.who.networks.CloudteamV1(), o.t.Context(), name.Draw(r, "name")
			var err error
			switch kind.Draw(r, "kind") {
			case "networks":
				err = v1.Networks(o.who.name).Delete(ctx, one, metav1.DeleteOptions{})
			case "securitygroups":
				err = v1.SecurityGroups(o.who.name).Delete(ctx, one, metav1.DeleteOptions{})
			case "networkports":
				err = v1.NetworkPorts(o.who.name).Delete(ctx, one, metav1.DeleteOptions{})
			case "floatingips":
				err = v1.FloatingIPs(o.who.name).Delete(ctx, one, metav1.DeleteOptions{})
			}
			took(r, err, "deletes %s", one)
		},
		"name another port": func(r *rapid.T) {
			o.patch(r, "floatingips", name.Draw(r, "name"), fmt.Sprintf(`{"spec":{"portName":%q}}`, name.Draw(r, "port")))
		},
		"name other groups": func(r *rapid.T) {
			o.patch(r, "networkports", name.Draw(r, "name"), fmt.Sprintf(`{"spec":{"securityGroupRefs":[%q]}}`, name.Draw(r, "group")))
		},
		"forget the cloud": func(r *rapid.T) {
			o.patch(r, kind.Draw(r, "kind"), name.Draw(r, "name"),
				fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, cloudteamv1.AnnotationCloud))
		},
		"another Secret": func(r *rapid.T) {
			o.secret(r, rapid.SampledFrom([]string{"own", "another project", "none"}).Draw(r, "leads to"))
		},
		"another process": func(r *rapid.T) { o.process.Kill(o.t); o.start() },
		"time": func(r *rapid.T) {
			virtual.Elapse(time.Duration(rapid.IntRange(1, 40).Draw(r, "seconds")) * time.Second)
		},
		"": func(r *rapid.T) {
			if wrong := slices.Concat(heard(o.tenants, o.operators), heard(o.operators, o.tenants)); len(wrong) > 0 {
				r.Fatalf("one cloud was asked about what another one told:\n%s", strings.Join(wrong, "\n"))
			}
		},
	})
	virtual.Elapse(time.Minute)
}

// create makes an object that names others, in the namespace's cloud or in the operator's.
func (o *origins) create(r *rapid.T, kind, name string) {
	v1, ctx, options := o.who.networks.CloudteamV1(), o.t.Context(), metav1.CreateOptions{}
	meta := metav1.ObjectMeta{Name: name}
	var own *cloudteamv1.CloudReference
	if kind != "networkports" && rapid.Bool().Draw(r, "own cloud") {
		own = &cloudteamv1.CloudReference{SecretName: secretName}
	}
	other := rapid.SampledFrom([]string{"a", "b"})
	var err error
	switch kind {
	case "networks":
		spec := cloudteamv1.NetworkSpec{Cloud: own, Router: &cloudteamv1.RouterSpec{ExternalNetwork: "external"}}
		spec.CIDR, spec.Gateway = "10.99.0.0/24", "10.99.0.1"
		if rapid.Bool().Draw(r, "groups for its ports") {
			spec.SecurityGroupRefs = []string{other.Draw(r, "group")}
		}
		_, err = v1.Networks(o.who.name).Create(ctx, &cloudteamv1.Network{ObjectMeta: meta, Spec: spec}, options)
	case "securitygroups":
		spec := cloudteamv1.SecurityGroupSpec{Cloud: own, Rules: []cloudteamv1.SecurityGroupRule{
			{Direction: cloudteamv1.RuleIngress, EtherType: cloudteamv1.EtherTypeIPv4, RemoteGroup: other.Draw(r, "remote group")},
		}}
		_, err = v1.SecurityGroups(o.who.name).Create(ctx, &cloudteamv1.SecurityGroup{ObjectMeta: meta, Spec: spec}, options)
	case "networkports":
		spec := cloudteamv1.NetworkPortSpec{NetworkName: other.Draw(r, "network"), SecurityGroupRefs: []string{other.Draw(r, "group")}}
		_, err = v1.NetworkPorts(o.who.name).Create(ctx, &cloudteamv1.NetworkPort{ObjectMeta: meta, Spec: spec}, options)
	case "floatingips":
		spec := cloudteamv1.FloatingIPSpec{Cloud: own, ExternalNetwork: "external", PortName: other.Draw(r, "port")}
		_, err = v1.FloatingIPs(o.who.name).Create(ctx, &cloudteamv1.FloatingIP{ObjectMeta: meta, Spec: spec}, options)
	}
	took(r, err, "creates %s %s, own cloud %t", kind, name, own != nil)
}

func (o *origins) patch(r *rapid.T, kind, name, patch string) {
	v1, ctx, merge, options := o.who.networks.CloudteamV1(), o.t.Context(), types.MergePatchType, metav1.PatchOptions{}
	var err error
	switch kind {
	case "networks":
		_, err = v1.Networks(o.who.name).Patch(ctx, name, merge, []byte(patch), options)
	case "securitygroups":
		_, err = v1.SecurityGroups(o.who.name).Patch(ctx, name, merge, []byte(patch), options)
	case "networkports":
		_, err = v1.NetworkPorts(o.who.name).Patch(ctx, name, merge, []byte(patch), options)
	case "floatingips":
		_, err = v1.FloatingIPs(o.who.name).Patch(ctx, name, merge, []byte(patch), options)
	}
	took(r, err, "patches %s %s by %s", kind, name, patch)
}

// secret has the namespace's Secret lead to a cloud, or there be none.
func (o *origins) secret(r *rapid.T, to string) {
	secrets := o.who.kube.CoreV1().Secrets(o.who.name)
	took(r, secrets.Delete(o.t.Context(), secretName, metav1.DeleteOptions{}), "deletes the Secret")
	if to == "none" {
		return
	}
	_, err := secrets.Create(o.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName}, StringData: map[string]string{"clouds.yaml": o.secrets[to]},
	}, metav1.CreateOptions{})
	took(r, err, "has a Secret for %s", to)
}
