package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// TestEveryField takes every field that is an attribute in Neutron through its life, by server-side apply: it arrives
// there, follows an edit, is put back when somebody else changes it, which an Event tells of, costs nothing at
// rest, and is emptied, and taken back or left, as docs/fields.md says, when the spec sets it no longer. Its rows are in
// the tables of test/specs.
func TestEveryField(t *testing.T) {
	reference := readReference(t)
	t.Run("each field of docs/fields.md that is an attribute in Neutron has a row, and each row says all that it has to",
		func(t *testing.T) { wantRows(t, reference, specs.Trials()) })
	for _, cloudName := range []string{"tenant", "admin"} {
		t.Run(cloudName, func(t *testing.T) {
			withProcesses(t)
			startController(t, cloudName, "--resync-period=1s")
			newAttempt(t, reference, cloudName).live()
		})
	}
}

// way is the tool that writes the specs. Of all that users have, it is the one to which the types of lists matter;
// TestEveryToolStoresTheSameSpec (integration) holds the others to the same specs.
const way = harness.ServerSideApply

// live takes the objects through their lives.
func (a *attempt) live() {
	a.t.Helper()
	a.write(asCreated)
	a.write(asChanged)
	for _, o := range a.objects {
		o.drift()
	}
	for _, o := range a.objects {
		eventually(a.t, func() error { return o.differs(asChanged) })
		o.wantEvents()
	}
	a.wantAll(asChanged)
	a.write(asEmptied)
	a.write(asChanged)
	a.write(asRemoved)
	if emulator != nil {
		wantRest(a.t, func() []string { return versionsOf(a.t, a.objects) })
	}
	a.remove()
}

// attempt is the trials of one cloud.
type attempt struct {
	t         *testing.T
	reference map[string]reference
	namespace string
	// neutron is an administrator's, who sees and changes whatever there is, whoever's it is.
	neutron *cloud
	objects []*tried
	// vlans is the first of some VLAN IDs that the cloud does not choose by itself, and that no other run has, as a rule:
	// the real cloud has many at a time, and keeps what a run leaves that fails.
	vlans int
	// besides is what made has made.
	besides map[string]resource
}

// tried is the object of a trial.
type tried struct {
	specs.Trial
	*attempt
	// called is the object's name.
	called string
	client dynamic.ResourceInterface
	// object and status are as they were last seen.
	object *unstructured.Unstructured
	status triedStatus
}

// triedStatus is what is read of a status, of any kind.
type triedStatus struct {
	cloudteamv1.ResourceStatus `json:",inline"`

	NetworkID string                     `json:"networkID"`
	Subnets   []cloudteamv1.SubnetStatus `json:"subnets"`
	Router    *cloudteamv1.RouterStatus  `json:"router"`
	PortID    string                     `json:"portID"`
	GroupID   string                     `json:"securityGroupID"`
	FloatID   string                     `json:"floatingIPID"`
}

func newAttempt(t *testing.T, fields map[string]reference, cloudName string) *attempt {
	t.Helper()
	a := &attempt{
		t: t, reference: fields, namespace: newNamespace(t), neutron: open(t, "admin"), besides: map[string]resource{},
		vlans: 2800 + 10*rand.IntN(120),
	}
	client := dynamic.NewForConfigOrDie(admin)
	for _, one := range specs.Trials() {
		if one.Cloud == cloudName {
			collection := cloudteamv1.SchemeGroupVersion.WithResource(strings.ToLower(one.Kind) + "s")
			a.objects = append(a.objects, &tried{
				Trial: one, attempt: a, called: a.namespace + "-" + one.Name,
				client: client.Resource(collection).Namespace(a.namespace),
			})
		}
	}
	return a
}

// of is the object of a trial of the same cloud.
func (a *attempt) of(name string) *tried {
	a.t.Helper()
	at := slices.IndexFunc(a.objects, func(o *tried) bool { return o.Name == name })
	if at < 0 {
		a.t.Fatalf("no trial of this cloud is called %q: write the name of one into the row that asks for it", name)
	}
	return a.objects[at]
}

// made is what rows need in Neutron besides their objects. make makes it, and sees to its end, when it is first asked
// for.
func (a *attempt) made(what string, make func() resource) resource {
	a.t.Helper()
	if _, there := a.besides[what]; !there {
		a.besides[what] = make()
	}
	return a.besides[what]
}

// outside is an external network with a subnet.
func (a *attempt) outside(cidr string) resource {
	a.t.Helper()
	return a.made("outside "+cidr, func() resource {
		return a.neutron.CreateExternal(a.namespace+"-"+strings.ReplaceAll(cidr, "/", "-"), cidr)
	})
}

// version is which of a row's values is declared.
type version int

const (
	asCreated version = iota
	asChanged
	// asEmptied has the empty value where that means something, and asRemoved leaves out what can be left out.
	asEmptied
	asRemoved
)

// declared is what the spec says of a row's field; nil where it says nothing.
func (o *tried) declared(row specs.Row, v version) any {
	switch {
	case v == asEmptied && row.Empty != nil:
		return row.Empty
	case v == asRemoved && o.removable(row):
		return nil
	case v != asCreated && row.Change != nil:
		return o.known(row.Change)
	default:
		return o.known(row.Create)
	}
}

// removable reports whether a row's field can be left out of the spec.
func (o *tried) removable(row specs.Row) bool {
	field := o.reference[o.Kind+" "+row.Field]
	return row.Needs == "" && (row.Gone != nil || field.removed == "stays")
}

// wanted is what Neutron shows of a row in an attribute; false where nothing is known of it.
func (o *tried) wanted(row specs.Row, attribute string, v version) (want any, known bool) {
	switch declared := o.declared(row, v); {
	case v == asEmptied && row.Emptied != nil:
		return o.known(row.Emptied), true
	case v == asEmptied && row.Empty != nil || v == asRemoved && row.Gone != nil:
		return o.known(row.Gone), true
	case v == asRemoved && o.removable(row):
		return o.wanted(row, attribute, asChanged)
	case declared == nil:
		return nil, false
	case row.Reads != nil:
		return row.Reads(o, attribute, declared), true
	default:
		return declared, true
	}
}

// known is a value of the table.
func (o *tried) known(value any) any {
	if l, ok := value.(specs.Late); ok {
		return l(o)
	}
	return value
}

// write has the objects' specs say what they do in a version, and waits until Neutron has that.
func (a *attempt) write(v version) {
	a.t.Helper()
	for _, o := range a.objects {
		object := &unstructured.Unstructured{}
		err := object.UnmarshalJSON([]byte(asJSON(map[string]any{
			"apiVersion": cloudteamv1.SchemeGroupVersion.String(), "kind": o.Kind, "spec": o.spec(v),
			"metadata": map[string]any{"namespace": o.namespace, "name": o.called},
		})))
		expect.NoError(o.t, err)
		if o.object, err = way.Write(o.t.Context(), o.client, object); err != nil {
			o.t.Fatalf("writing %s %s: %v", o.Kind, o.called, err)
		}
	}
	a.wantAll(v)
}

// spec is the object's, in a version.
func (o *tried) spec(v version) map[string]any {
	o.t.Helper()
	spec := map[string]any{}
	for _, row := range o.Rows {
		if value := o.declared(row, v); value != nil {
			put(spec, strings.TrimPrefix(row.Field, "spec."), value)
		}
	}
	return spec
}

// awaitReady waits until the object is Ready at its present generation.
func (o *tried) awaitReady() {
	o.t.Helper()
	eventually(o.t, func() error {
		var err error
		if o.object, err = o.client.Get(o.t.Context(), o.called, metav1.GetOptions{}); err != nil {
			return err
		}
		status, _ := o.object.Object["status"].(map[string]any)
		o.status = triedStatus{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &o.status); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(o.status.Conditions, cloudteamv1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != o.object.GetGeneration() {
			return fmt.Errorf("%s %s is not Ready at generation %d: %s", o.Kind, o.called, o.object.GetGeneration(),
				asJSON(o.status.Conditions))
		}
		return nil
	})
}

// id is that of one of the object's resources, of those that its status names: of its subnets, the first.
func (o *tried) id(of string) string {
	o.t.Helper()
	switch {
	case of == "network" && o.status.NetworkID != "":
		return o.status.NetworkID
	case of == "subnet" && len(o.status.Subnets) > 0:
		return o.status.Subnets[0].ID
	case of == "router" && o.status.Router != nil:
		return o.status.Router.ID
	case of == "port" && o.status.PortID != "":
		return o.status.PortID
	case of == "security_group" && o.status.GroupID != "":
		return o.status.GroupID
	case of == "floatingip" && o.status.FloatID != "":
		return o.status.FloatID
	}
	o.t.Fatalf("the status of %s %s names no %s: have the rows of its attributes say how to look for them (sees) and "+
		"how others change them (drifts)", o.Kind, o.called, of)
	return ""
}

// wantAll waits until all objects are Ready, and holds what Neutron has against what is declared then.
func (a *attempt) wantAll(v version) {
	a.t.Helper()
	for _, o := range a.objects {
		o.awaitReady()
	}
	for _, o := range a.objects {
		if err := o.differs(v); err != nil {
			o.t.Error(err)
		}
	}
}

// differs tells where Neutron has something else than is declared, a line for each row.
func (o *tried) differs(v version) error {
	o.t.Helper()
	seen := map[string]resource{}
	var errs []error
	for _, row := range o.Rows {
		declared := o.declared(row, v)
		for _, attribute := range o.attributesOf(row) {
			want, known := o.wanted(row, attribute, v)
			if !known {
				continue
			}
			if got := o.see(row, attribute, seen); asJSON(got) != asJSON(want) {
				errs = append(errs, fmt.Errorf("%s %s: %s is %s, so that %s is to be %s, and it is %s", o.Kind, o.called, row.Field,
					asJSON(declared), attribute, asJSON(want), asJSON(got)))
			}
		}
	}
	return errors.Join(errs...)
}

// see gives what Neutron has in an attribute. Each resource is read once, into seen.
func (o *tried) see(row specs.Row, attribute string, seen map[string]resource) any {
	o.t.Helper()
	if row.Sees != nil {
		return row.Sees(o)
	}
	of, path, _ := strings.Cut(attribute, ".")
	if seen[of] == nil {
		seen[of] = o.neutron.One(collectionOf(of), "id="+o.id(of))
	}
	return at(map[string]any(seen[of]), path)
}

// collectionOf is where Neutron has the resources of a kind.
func collectionOf(of string) string { return strings.ReplaceAll(of, "_", "-") + "s" }

// attributesOf are the attributes that show a row's value. An element of a list in the spec is one in Neutron.
func (o *tried) attributesOf(row specs.Row) []string {
	if row.Attribute != "" {
		return []string{row.Attribute}
	}
	attributes := slices.Clone(o.reference[o.Kind+" "+row.Field].attributes)
	for i, attribute := range attributes {
		if last := strings.LastIndex(attribute, "."); strings.Contains(row.Field, "[].") {
			attributes[i] = attribute[:last] + "[]" + attribute[last:]
		}
	}
	return attributes
}

// drift changes in Neutron what others can change, in one request for each resource.
func (o *tried) drift() {
	o.t.Helper()
	bodies := map[string]resource{}
	for _, row := range o.Rows {
		switch {
		case row.Drifts != nil:
			row.Drifts(o)
		case row.Drift != nil:
			for _, attribute := range o.attributesOf(row) {
				of, path, _ := strings.Cut(attribute, ".")
				if bodies[of] == nil {
					bodies[of] = resource{}
				}
				put(bodies[of], path, o.known(row.Drift))
			}
		}
	}
	for of, body := range bodies {
		o.neutron.Update(collectionOf(of), o.id(of), body)
	}
}

// wantEvents waits for Events that name what was put back.
func (o *tried) wantEvents() {
	o.t.Helper()
	for _, row := range o.Rows {
		if row.Drift == nil && row.Drifts == nil {
			continue
		}
		text := row.Told
		if text == "" {
			text, _, _ = strings.Cut(strings.TrimPrefix(row.Field, "spec."), "[]")
			text = " " + strings.TrimPrefix(text, "router.") + " "
		}
		awaitEvent(o.t, o.namespace, o.called, cloudteamv1.EventDriftCorrected, text)
	}
}

// versionsOf are the objects' resourceVersions.
func versionsOf(t *testing.T, objects []*tried) []string {
	t.Helper()
	versions := make([]string, len(objects))
	for i, o := range objects {
		object, err := o.client.Get(t.Context(), o.called, metav1.GetOptions{})
		expect.NoError(t, err)
		versions[i] = object.GetResourceVersion()
	}
	return versions
}

// wantRest holds that nothing happens at rest, neither at resyncs nor at audits: the objects whose resourceVersions
// versions gives are not written, nothing in Neutron is, and Neutron is asked for lists and quotas alone, by the audits.
// The cloud is the emulator, and nobody but the controller may call it meanwhile.
func wantRest(t *testing.T, versions func() []string) {
	t.Helper()
	awaitAudits := func(count int) {
		t.Helper()
		emulator.ResetCalls()
		eventually(t, func() error {
			if audits := emulator.Calls("GET", "/v2.0/networks"); audits < count {
				return fmt.Errorf("%d audits so far", audits)
			}
			return nil
		})
	}
	// What the last write has moved may be news to the next audit, and the counts of addresses are news to the one after.
	awaitAudits(2)
	before := versions()
	awaitAudits(3)
	for call, count := range emulator.CallCounts() {
		lists := strings.HasPrefix(call, "GET ") && (!strings.Contains(call, "{id}") || strings.Contains(call, "/quotas/"))
		if !lists && !strings.Contains(call, "/auth/") {
			t.Errorf("at rest: %d calls %s", count, call)
		}
	}
	expect.Equal(t, before, versions(), "objects were written at rest")
}

// remove deletes the objects, ports before the networks that they are on, and holds that nothing is left of them.
func (a *attempt) remove() {
	a.t.Helper()
	trials := map[string]string{}
	for _, o := range slices.Backward(a.objects) {
		trials[o.Marker()] = o.Name
		expect.NoError(a.t, o.client.Delete(a.t.Context(), o.called, metav1.DeleteOptions{}))
		o.awaitGone()
	}
	for _, collection := range []string{"networks", "subnets", "routers", "ports", "security-groups", "floatingips"} {
		for _, r := range a.neutron.List(collection, "fields=id&fields=description") {
			description, _ := r["description"].(string)
			for marker, trial := range trials {
				if strings.HasSuffix(description, marker) {
					a.t.Errorf("of trial %q something is left: %s %v", trial, collection, r)
				}
			}
		}
	}
}

// awaitGone waits until the API server has the object no longer.
func (o *tried) awaitGone() {
	o.t.Helper()
	eventually(o.t, func() error {
		object, err := o.client.Get(o.t.Context(), o.called, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("%s %s is still there: %s", o.Kind, o.called, asJSON(object.Object["status"]))
	})
}

// put sets what a path leads to, and makes what is missing on the way. A name that ends in [] is a list of one element.
func put(object map[string]any, path string, value any) {
	first, rest, further := strings.Cut(path, ".")
	key, isList := strings.CutSuffix(first, "[]")
	if !further {
		object[key] = value
		return
	}
	inner, _ := object[key].(map[string]any)
	if elements, ok := object[key].([]any); ok {
		inner, _ = elements[0].(map[string]any)
	}
	if inner == nil {
		inner = map[string]any{}
		object[key] = any(inner)
		if isList {
			object[key] = []any{inner}
		}
	}
	put(inner, rest, value)
}

// at gives what a path leads to, and a list as a whole that has not just the one element that its name asks for.
func at(value any, path string) any {
	for path != "" {
		object, ok := value.(map[string]any)
		if !ok {
			return value
		}
		var first string
		first, path, _ = strings.Cut(path, ".")
		key, isList := strings.CutSuffix(first, "[]")
		value = object[key]
		if elements, ok := value.([]any); ok && isList && len(elements) == 1 {
			value = elements[0]
		}
	}
	return value
}
