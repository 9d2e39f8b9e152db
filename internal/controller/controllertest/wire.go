package controllertest

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client/clienttest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// emulatedRegion is the emulator's only region.
const emulatedRegion = "RegionOne"

// wire is the transport of the Inventory's calls. It notes them in the words of package plan, breaks them as the
// Neutron says, and has them served one at a time. The emulator takes only UUIDs for ids: the wire writes each short id
// as the UUID that spells it.
type wire struct {
	of *Neutron

	// mu is held while the emulator serves a call, which takes no time.
	mu     sync.Mutex
	region string
	// made is the collection of what the call under way makes, noted whether the Inventory sent it, forced the id that it
	// is given by hand, and clock the time by hand.
	made, forced string
	noted        bool
	clock        time.Time
	// serial counts what the Inventory made, and others everything else.
	serial, others int
	// round has the kinds that were listed since the CallLog has the last list.
	round   map[string]bool
	numbers map[string]int
	hidden  map[string]bool
}

// prefixes begin the ids of what a POST makes.
var prefixes = map[string]string{
	"networks": "net", "subnets": "sub", "ports": "port", "routers": "router", "security-groups": "group",
	"security-group-rules": "rule", "floatingips": "fip", "rbac-policies": "rbac",
}

func (w *wire) now() time.Time {
	if !w.clock.IsZero() {
		return w.clock
	}
	return time.Now()
}

// newID is called while mu is held.
func (w *wire) newID(collection string) (id string) {
	switch {
	case collection == w.made && w.forced != "":
		id, w.forced = w.forced, ""
	case collection == w.made && w.noted:
		w.serial++
		id = fmt.Sprintf("%s-%d", prefixes[collection], w.serial)
	default:
		w.others++
		id = fmt.Sprintf("other-%d", w.others)
	}
	w.numbers[id] = len(w.numbers)
	return spell(id)
}

// hide has Everything show nothing of an id.
func (w *wire) hide(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hidden[id] = true
}

func (w *wire) isHidden(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hidden[id]
}

// longestID is how much of a text a UUID spells.
const longestID = 16

// number orders ids by the creation of what they name.
func (w *wire) number(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.numbers[id]
}

// spell writes a short id as a UUID. Other texts stay as they are.
func spell(id string) string {
	if id == "" || len(id) > longestID {
		return id
	}
	b := make([]byte, 16)
	copy(b, id)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

var spelled = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// shorten writes the UUIDs in an answer as the ids that they spell.
func shorten(text []byte) []byte {
	return spelled.ReplaceAllFunc(text, func(id []byte) []byte {
		b, err := hex.DecodeString(strings.ReplaceAll(string(id), "-", ""))
		if err != nil {
			return id
		}
		b = bytes.TrimRight(b, "\x00")
		for _, c := range b {
			if c < ' ' || c > '~' {
				return id // it spells nothing
			}
		}
		return b
	})
}

// isID reports whether a field of a body or of a query has ids.
func isID(field string) bool {
	switch field {
	case "project_id", "tenant_id", "device_id", "provider:segmentation_id":
		return false
	case "id", "security_groups", "marker":
		return true
	}
	return strings.HasSuffix(field, "_id")
}

// lengthen writes the short ids of a body as UUIDs.
func lengthen(v any, id bool) any {
	switch v := v.(type) {
	case map[string]any:
		for field, of := range v {
			// A bulk of groups has their name, too, and a port's are ids.
			v[field] = lengthen(of, isID(field))
		}
	case []any:
		for i, of := range v {
			v[i] = lengthen(of, id)
		}
	case string:
		if id {
			return spell(v)
		}
	}
	return v
}

// request is a call below /v2.0/, with short ids.
type request struct {
	method, collection, id, action string
	query                          url.Values
	body                           map[string]any
}

// many is the name of a collection in a body.
func many(collection string) string {
	return strings.ReplaceAll(strings.TrimPrefix(collection, "qos/"), "-", "_")
}

func parse(r *http.Request) (q request, ok bool) {
	path, ok := strings.CutPrefix(r.URL.Path, "/v2.0/")
	if !ok {
		return q, false
	}
	q.method, q.query = r.Method, r.URL.Query()
	parts := strings.Split(path, "/")
	if parts[0] == "qos" {
		parts = append([]string{parts[0] + "/" + parts[1]}, parts[2:]...)
	}
	parts = append(parts, "", "")
	q.collection, q.id, q.action = parts[0], parts[1], parts[2]
	if r.Body != nil {
		content, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(content, &q.body)
	}
	return q, true
}

// send gives the call to the emulator, with the ids that it takes.
func (w *wire) send(r *http.Request, q request) (*http.Response, []byte, error) {
	out := r.Clone(r.Context())
	path := "/networking/v2.0/" + q.collection
	if q.id != "" {
		path += "/" + spell(q.id)
	}
	if q.action != "" {
		path += "/" + q.action
	}
	query := url.Values{}
	for field, values := range q.query {
		for _, value := range values {
			switch subnet, of := strings.CutPrefix(value, "subnet_id="); {
			case isID(field), field == "device_id":
				value = spell(value)
			case of:
				value = "subnet_id=" + spell(subnet)
			}
			query.Add(field, value)
		}
	}
	out.Method = q.method
	out.URL.Path, out.URL.RawPath, out.URL.RawQuery = path, "", query.Encode()
	out.Body, out.ContentLength = http.NoBody, 0
	if q.body != nil {
		content, err := json.Marshal(lengthen(q.body, false))
		if err != nil {
			return nil, nil, err
		}
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made, w.forced, w.clock = q.collection, "", time.Time{}
	as, byHand := r.Context().Value(makeKey{}).(makeAs)
	if byHand {
		w.forced, w.clock = as.id, as.at
	}
	w.noted = !byHand && q.method == http.MethodPost
	return w.serve(out)
}

// makeAs is how something is made by hand.
type makeAs struct {
	id string
	at time.Time
}

type makeKey struct{}

// serve serves a call. The caller holds mu.
func (w *wire) serve(r *http.Request) (*http.Response, []byte, error) {
	r.Header.Set("X-Forwarded-Proto", r.URL.Scheme)
	r.Host = r.URL.Host
	var served http.Handler = w.of.server
	if r.Context().Value(byHandKey{}) == nil {
		served = w.of.habits.Wrap(served)
	}
	response, err := clienttest.Direct{Handler: served}.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	content, err := io.ReadAll(response.Body)
	return response, shorten(content), err
}

// logIn serves a call to Keystone. The catalog names the endpoint and the region of the credentials.
func (w *wire) logIn(r *http.Request, region string) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	response, content, err := w.serve(r.Clone(r.Context()))
	if err != nil {
		return nil, err
	}
	content = bytes.ReplaceAll(content, []byte(`/networking"`), []byte(`/"`))
	if region != "" {
		content = bytes.ReplaceAll(content, []byte(emulatedRegion), []byte(region))
	}
	return answered(response, content), nil
}

func answered(response *http.Response, content []byte) *http.Response {
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	response.Header.Del("Content-Length")
	return response
}

var handingOver sync.Mutex

// handOver orders what a test wrote before it let time pass, such as the fields of a Neutron, before what a call reads
// that time has woken. synctest.Wait orders the way back alone.
func handOver() {
	handingOver.Lock()
	defer handingOver.Unlock()
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	q, ok := parse(r)
	steps := q.steps()
	for _, step := range steps {
		w.of.calls.Note("apply %s", step.Action)
	}
	line, noted := "", false
	if ok && len(steps) == 0 {
		if line, noted = q.read(); q.lists() {
			w.noteList(q, r.Context().Value(quietKey{}) != nil)
		} else if noted {
			w.of.calls.Note("%s", line)
		}
	}
	select {
	case <-time.After(Latency):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	handOver()
	if err := w.of.isDown(); err != nil {
		return answerTo(err)
	}
	if !ok {
		return w.logIn(r, w.region)
	}
	if w.of.Reads != nil && line != "" {
		if err := w.of.Reads(line); err != nil {
			return answerTo(err)
		}
	}
	w.complete(q, steps) //nolint:contextcheck // it reads the emulator in place
	for _, step := range steps {
		if w.of.Before != nil {
			if err := w.of.Before(step); err != nil {
				return answerTo(err)
			}
		}
	}
	if len(steps) > 0 && w.of.Deaf != nil && w.of.Deaf(steps[0]) {
		return w.unheard(r, q)
	}
	response, content, err := w.send(r, q)
	if err != nil {
		return nil, err
	}
	if q.collection == "network-ip-availabilities" && w.of.Used != nil {
		content = w.counted()
	}
	if q.lists() || strings.HasPrefix(line, "names of ") {
		content = w.shown(q, content)
	}
	if response.StatusCode < http.StatusBadRequest && w.of.After != nil {
		for _, step := range steps {
			if err := w.of.After(step); err != nil {
				return answerTo(err)
			}
		}
	}
	return answered(response, content), nil
}

// noteList notes a round of lists, which has at most one of each kind. Those of subnets and shares follow that of
// networks.
func (w *wire) noteList(q request, quiet bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, held := kinds[q.collection]; !held {
		return
	}
	if len(w.round) == 0 || w.round[q.collection] {
		if !quiet {
			w.of.calls.Note("list")
		}
		w.round = map[string]bool{}
	}
	w.round[q.collection] = true
}

// unheard answers a write with the resource as it is.
func (w *wire) unheard(r *http.Request, q request) (*http.Response, error) {
	if q.method == http.MethodDelete {
		return answered(&http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}}, nil), nil
	}
	q.method, q.body = http.MethodGet, nil
	response, content, err := w.send(r, q)
	if err != nil {
		return nil, err
	}
	return answered(response, content), nil
}

// counted is the cloud's count of addresses in use.
func (w *wire) counted() []byte {
	counts := []any{}
	for subnet, used := range w.of.Used {
		counts = append(counts, map[string]any{"subnet_id": subnet, "used_ips": used})
	}
	content, err := json.Marshal(map[string]any{
		"network_ip_availabilities": []any{map[string]any{"subnet_ip_availability": counts}},
	})
	if err != nil {
		panic(err)
	}
	return content
}

// lists reports whether a call is one of an audit.
func (q request) lists() bool {
	whole := q.collection == "rbac-policies" || slices.Contains(q.query["fields"], "revision_number")
	return q.method == http.MethodGet && q.id == "" && q.query.Has("project_id") && whole && !q.query.Has("object_id")
}

// shown is what a list shows of what there is.
func (w *wire) shown(q request, content []byte) []byte {
	if w.of.Missed == nil && w.of.Replayed == nil {
		return content
	}
	var answer map[string]any
	if json.Unmarshal(content, &answer) != nil {
		return content
	}
	all := many(q.collection)
	items, _ := answer[all].([]any)
	if w.of.Replayed != nil && q.lists() {
		items = []any{}
		for _, item := range w.of.Replayed[q.collection] {
			items = append(items, item)
		}
	}
	answer[all] = slices.DeleteFunc(items, func(item any) bool {
		id, _ := item.(map[string]any)["id"].(string)
		return w.of.Missed[id]
	})
	content, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return content
}

// writes are the actions of requests that change something.
var writes = map[string]plan.Action{
	"POST networks": plan.CreateNetwork, "PUT networks": plan.UpdateNetwork, "DELETE networks": plan.DeleteNetwork,
	"PUT networks tags": plan.TagNetwork,
	"POST subnets":      plan.CreateSubnet, "PUT subnets": plan.UpdateSubnet, "DELETE subnets": plan.DeleteSubnet,
	"POST ports": plan.CreatePort, "PUT ports": plan.UpdatePort, "DELETE ports": plan.DeletePort,
	"POST routers": plan.CreateRouter, "PUT routers": plan.UpdateRouter, "DELETE routers": plan.DeleteRouter,
	"PUT routers add_router_interface": plan.AttachInterface, "PUT routers remove_router_interface": plan.DetachInterface,
	"POST rbac-policies": plan.ShareNetwork, "DELETE rbac-policies": plan.UnshareNetwork,
	"POST security-groups": plan.CreateGroup, "PUT security-groups": plan.UpdateGroup,
	"DELETE security-groups": plan.DeleteGroup, "POST security-group-rules": plan.CreateRules,
	"DELETE security-group-rules": plan.DeleteRule,
	"POST floatingips":            plan.CreateFloatingIP, "PUT floatingips": plan.UpdateFloatingIP,
	"DELETE floatingips": plan.DeleteFloatingIP,
}

// steps are what a write does, one for each resource.
func (q request) steps() (steps []plan.Step) {
	action, ok := writes[strings.TrimSpace(q.method+" "+q.collection+" "+q.action)]
	if !ok {
		return nil
	}
	step := plan.Step{Action: action, Ref: plan.Ref{ID: q.id}}
	one := func(body any) plan.Step {
		of, _ := body.(map[string]any)
		step := step
		_, gateway := of["external_gateway_info"]
		if cidr, ok := of["cidr"].(string); ok && action == plan.CreateSubnet {
			step.Subnet.CIDR = netip.MustParsePrefix(cidr)
		}
		switch {
		case action == plan.CreatePort &&
			(of["device_owner"] == plan.InterfaceDeviceOwner || of["device_owner"] == plan.UnattachedDeviceOwner):
			step.Action = plan.CreateInterface
		case action == plan.UpdateRouter && gateway:
			step.Action = plan.UpdateGateway
		}
		return step
	}
	all := many(q.collection)
	bulk, isBulk := q.body[all].([]any)
	if !isBulk || action == plan.CreateRules {
		return []plan.Step{one(q.body[strings.TrimSuffix(all, "s")])}
	}
	for _, body := range bulk {
		steps = append(steps, one(body))
	}
	return steps
}

// complete adds to the step of a deletion what its request does not say.
func (w *wire) complete(q request, steps []plan.Step) {
	if q.method != http.MethodDelete || len(steps) == 0 || w.of.Before == nil && w.of.After == nil {
		return
	}
	switch q.collection {
	case "subnets":
		if cidr, ok := w.of.field(q, "cidr").(string); ok {
			steps[0].Subnet.CIDR = netip.MustParsePrefix(cidr)
		}
	case "rbac-policies":
		steps[0].Share.Project, _ = w.of.field(q, "target_tenant").(string)
	}
}

// kinds are those of collections that an Inventory holds.
var kinds = map[string]plan.Kind{
	"networks": plan.KindNetwork, "ports": plan.KindPort, "routers": plan.KindRouter, "security-groups": plan.KindGroup,
	"floatingips": plan.KindFloatingIP,
}

// read says what a read is, as the CallLog and Reads have it. The CallLog has no line of what follows another call, nor
// of counts and names; it is false for these, and for lists, of which an audit has several.
func (q request) read() (line string, noted bool) {
	of, held := kinds[q.collection]
	switch {
	case q.lists():
		return "list " + q.collection, false
	case held && slices.Contains(q.query["fields"], "project_id") && q.id != "":
		return "get network " + q.id, true
	case held && q.id != "":
		return "reread " + plan.Resource{Kind: of, ID: q.id}.String(), true
	case held && (q.query.Has("name") || q.query.Has("description") || q.query.Has("tags")):
		return "find " + string(of), true
	case q.query.Has("network_id"), q.query.Has("security_groups"), q.query.Has("device_id"), q.query.Has("router_id"):
		return "blockers", q.collection != "subnets"
	default:
		return "names of " + q.collection, false
	}
}

// refusals are the status and the type of Neutron's refusals, by kind of error.
var refusals = map[client.Kind]struct {
	status    int
	exception string
}{
	client.Throttled: {http.StatusTooManyRequests, ""}, client.Capacity: {http.StatusConflict, "OverQuota"},
	client.Invalid: {http.StatusBadRequest, "InvalidInput"}, client.NotFound: {http.StatusNotFound, "NotFound"},
	client.Forbidden: {http.StatusForbidden, "PolicyNotAuthorized"}, client.InUse: {http.StatusConflict, "NetworkInUse"},
	client.Conflict:        {http.StatusPreconditionFailed, "RevisionNumberConstraintFailed"},
	client.Taken:           {http.StatusConflict, "IpAddressAlreadyAllocated"},
	client.Exhausted:       {http.StatusConflict, "IpAddressGenerationFailure"},
	client.Unauthenticated: {http.StatusUnauthorized, ""},
}

// answerTo is what a call gets that fails with an error as the client is to give it: an answer, or a connection that
// was cut, or one that was never made.
func answerTo(err error) (*http.Response, error) {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return nil, err
	}
	as := refusals[e.Kind]
	if e.Status != 0 {
		as.status = e.Status
	}
	if e.Type != "" {
		as.exception = e.Type
	}
	switch {
	case as.status == 0 && e.MaybeDone:
		return nil, errCut
	case as.status == 0:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	content, err := json.Marshal(map[string]any{
		"NeutronError": map[string]any{"type": as.exception, "message": e.Reason, "detail": ""},
	})
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if e.Wait > 0 {
		header.Set("Retry-After", strconv.Itoa(int(e.Wait.Seconds())))
	}
	return answered(&http.Response{StatusCode: as.status, Header: header}, content), nil
}

// byHand is the transport of what a test does and sees. Nothing of it is noted or broken, and it takes no time. A list
// shows all projects' resources, as the reader's.
type byHand struct{ *wire }

// byHandKey is in the context of what byHand sends.
type byHandKey struct{}

// RoundTrip implements http.RoundTripper.
func (w byHand) RoundTrip(r *http.Request) (*http.Response, error) {
	q, ok := parse(r)
	if !ok {
		return w.logIn(r, "")
	}
	lists := q.lists()
	if only, _ := r.Context().Value(readKey{}).([]string); lists && len(only) > 0 && !slices.Contains(only, q.collection) {
		none := fmt.Sprintf(`{%q: []}`, many(q.collection))
		return answered(&http.Response{StatusCode: http.StatusOK, Header: http.Header{}}, []byte(none)), nil
	}
	q.query.Del("project_id")
	response, content, err := w.send(r.WithContext(context.WithValue(r.Context(), byHandKey{}, true)), q)
	if err != nil {
		return nil, err
	}
	if _, held := kinds[q.collection]; lists && held {
		content = owned(q, content)
	}
	return answered(response, content), nil
}

// owned marks what a list shows as the reader's.
func owned(q request, content []byte) []byte {
	var answer map[string]any
	all := many(q.collection)
	if json.Unmarshal(content, &answer) != nil {
		return content
	}
	items, _ := answer[all].([]any)
	for _, item := range items {
		if of := item.(map[string]any); of["description"] != nil {
			of["description"] = reader.Describe(of["description"].(string))
		}
	}
	content, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return content
}

// as has what a request of ctx makes get an id, and a time of creation unless it is zero.
func as(ctx context.Context, id string, at time.Time) context.Context {
	return context.WithValue(ctx, makeKey{}, makeAs{id, at})
}
