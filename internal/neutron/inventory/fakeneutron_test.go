package inventory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client/clienttest"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// fakeNeutron keeps networks, subnets and ports the way Neutron does, as far as an Inventory can tell.
type fakeNeutron struct {
	mu       sync.Mutex
	networks map[string]*wireNetwork
	subnets  map[string]*wireSubnet
	ports    map[string]*wirePort
	// others are the lists of routers, security groups, floating IPs and RBAC policies, by the collection's path. A
	// collection without a list does not exist.
	others map[string][]item
	// projects are the projects of resources that are not of project-1, by id.
	projects map[string]string
	// availabilities is the answer to network-ip-availabilities; nil refuses it with 403.
	availabilities []map[string]any
	// before, where set, is called ahead of each call, with nothing locked. It may block, or answer and return true.
	before func(w http.ResponseWriter, r *http.Request) bool
	made   int
	// page is the most items that a list gives at a time, whatever it is asked for.
	page  int
	calls []string
}

func newFakeNeutron() *fakeNeutron {
	return &fakeNeutron{
		networks: map[string]*wireNetwork{}, subnets: map[string]*wireSubnet{}, ports: map[string]*wirePort{},
		projects: map[string]string{}, page: 1000,
	}
}

func (n *fakeNeutron) setBefore(before func(w http.ResponseWriter, r *http.Request) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.before = before
}

// answers has Neutron give an answer to the requests of a method, or of any for "", whose path has an end.
func (n *fakeNeutron) answers(method, end string, status int, body string) {
	n.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		mine := (method == "" || r.Method == method) && strings.HasSuffix(r.URL.Path, end)
		if mine {
			answer(w, status, body)
		}
		return mine
	})
}

// change is what somebody else does in Neutron.
func (n *fakeNeutron) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
}

// count tells how many calls were of the given method and path.
func (n *fakeNeutron) count(call string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, c := range n.calls {
		if c == call {
			count++
		}
	}
	return count
}

func (n *fakeNeutron) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, path, _ := strings.Cut(r.URL.Path, "/v2.0/")
	n.mu.Lock()
	n.calls = append(n.calls, r.Method+" "+path)
	before := n.before
	n.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	collection, id, _ := strings.Cut(path, "/")
	switch {
	case collection == "network-ip-availabilities":
		if n.availabilities == nil {
			refuse(w, http.StatusForbidden, "PolicyNotAuthorized", "rule:get_network_ip_availability is disallowed by policy")
			return
		}
		write(w, http.StatusOK, map[string]any{"network_ip_availabilities": n.availabilities})
	case n.others[collection] == nil && !slices.Contains([]string{"networks", "subnets", "ports"}, collection):
		refuse(w, http.StatusNotFound, "HTTPNotFound", "The resource could not be found.")
	case r.Method == http.MethodGet && id == "":
		writePage(w, r, collection, n.page, n.listed(r, collection))
	case r.Method == http.MethodPost && collection == "networks":
		createEach(w, r, collection, n.createNetwork) //nolint:contextcheck // it passes the request
	case r.Method == http.MethodPost && collection == "subnets":
		createEach(w, r, collection, n.createSubnet) //nolint:contextcheck // it passes the request
	case r.Method == http.MethodPost && collection == "ports":
		createEach(w, r, collection, n.createPort) //nolint:contextcheck // it passes the request
	case collection == "ports":
		serveOne(w, r, "port", n.ports, id, func(p *wirePort) *client.Number { return &p.Revision }, asItIs,
			func(p *wirePort, _ bool) { n.addressed(p) })
	case collection == "networks":
		serveOne(w, r, "network", n.networks, id, func(w *wireNetwork) *client.Number { return &w.Revision }, n.withSubnets,
			func(w *wireNetwork, deleted bool) {
				maps.DeleteFunc(n.subnets, func(_ string, s *wireSubnet) bool { return deleted && s.NetworkID == w.ID })
			})
	case collection == "subnets":
		serveOne(w, r, "subnet", n.subnets, id, func(s *wireSubnet) *client.Number { return &s.Revision }, asItIs,
			func(s *wireSubnet, _ bool) { n.networks[s.NetworkID].Revision++ })
	default:
		refuse(w, http.StatusNotFound, "HTTPNotFound", "The resource could not be found.")
	}
}

// createEach has what is asked for in bulk created one by one, by a function that creates one.
func createEach(w http.ResponseWriter, r *http.Request, collection string, create http.HandlerFunc) {
	content, _ := io.ReadAll(r.Body)
	one := func(to http.ResponseWriter, body []byte) {
		single := r.Clone(r.Context())
		single.Body = io.NopCloser(bytes.NewReader(body))
		create(to, single)
	}
	var bulk map[string][]json.RawMessage
	if json.Unmarshal(content, &bulk) != nil || bulk[collection] == nil {
		one(w, content)
		return
	}
	name := strings.TrimSuffix(collection, "s")
	var made []json.RawMessage
	for _, body := range bulk[collection] {
		recorder := httptest.NewRecorder()
		one(recorder, []byte(`{"`+name+`":`+string(body)+`}`))
		var answered map[string]json.RawMessage
		if recorder.Code != http.StatusCreated || json.Unmarshal(recorder.Body.Bytes(), &answered) != nil {
			answer(w, recorder.Code, recorder.Body.String())
			return
		}
		made = append(made, answered[name])
	}
	write(w, http.StatusCreated, map[string]any{collection: made})
}

// created is a time of creation in an answer.
func created(text string) (t client.Time) {
	_ = t.UnmarshalJSON([]byte(text))
	return t
}

// item is a resource in a list.
type item struct {
	id   string
	body any
}

func (n *fakeNeutron) withSubnets(w *wireNetwork) any {
	full := *w
	full.Subnets = []string{}
	for id, s := range n.subnets {
		if s.NetworkID == w.ID {
			full.Subnets = append(full.Subnets, id)
		}
	}
	slices.Sort(full.Subnets)
	return full
}

func writePage(w http.ResponseWriter, r *http.Request, collection string, most int, items []item) {
	collection = strings.ReplaceAll(collection, "-", "_")
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.id, b.id) })
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit > most {
		limit = most
	}
	if marker := r.URL.Query().Get("marker"); marker != "" {
		at := slices.IndexFunc(items, func(i item) bool { return i.id == marker })
		if at < 0 {
			refuse(w, http.StatusNotFound, "NetworkNotFound", "Network "+marker+" could not be found.")
			return
		}
		items = items[at+1:]
	}
	body := map[string]any{}
	if len(items) > limit {
		items = items[:limit]
		body[collection+"_links"] = []any{map[string]string{"rel": "next", "href": "http://elsewhere.invalid/"}}
	}
	bodies := []any{}
	for _, i := range items {
		bodies = append(bodies, i.body)
	}
	body[collection] = bodies
	write(w, http.StatusOK, body)
}

func write(w http.ResponseWriter, status int, body any) {
	content, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	answer(w, status, string(content))
}

// addressed chooses the addresses that were left to Neutron.
func (n *fakeNeutron) addressed(p *wirePort) {
	for at := range p.FixedIPs {
		if p.FixedIPs[at].Address == "" {
			n.made++
			p.FixedIPs[at].Address = fmt.Sprintf("10.0.%d.%d", n.made/250, 1+n.made%250)
		}
	}
}

func (n *fakeNeutron) listed(r *http.Request, collection string) []item {
	project, networkID := r.URL.Query().Get("project_id"), r.URL.Query().Get("network_id")
	if project == "project-1" {
		project = ""
	}
	switch {
	case collection == "networks":
		return shown(n.networks, func(id string, _ *wireNetwork) bool { return n.projects[id] == project }, n.withSubnets)
	case collection == "ports":
		return shown(n.ports, func(id string, _ *wirePort) bool { return n.projects[id] == project }, asItIs[wirePort])
	case n.others[collection] != nil:
		return slices.Clone(n.others[collection])
	}
	return shown(n.subnets, func(id string, s *wireSubnet) bool {
		return networkID == "" && n.projects[id] == project || networkID != "" && s.NetworkID == networkID
	}, asItIs[wireSubnet])
}

func shown[W any](all map[string]*W, fits func(id string, w *W) bool, show func(*W) any) (items []item) {
	for id, w := range all {
		if fits(id, w) {
			items = append(items, item{id, show(w)})
		}
	}
	return items
}

func asItIs[W any](w *W) any { return w }

// decode reads the resource of a request, or refuses it.
func decode(w http.ResponseWriter, r *http.Request, name string, into any) bool {
	var body map[string]json.RawMessage
	if json.NewDecoder(r.Body).Decode(&body) != nil || json.Unmarshal(body[name], into) != nil {
		refuse(w, http.StatusBadRequest, "HTTPBadRequest", "no JSON")
		return false
	}
	return true
}

func (n *fakeNeutron) createNetwork(w http.ResponseWriter, r *http.Request) {
	var made wireNetwork
	if !decode(w, r, "network", &made) {
		return
	}
	n.made++
	made.ID, made.Revision, made.Created = fmt.Sprintf("net-%04d", n.made), 1, created("2026-01-02T03:04:05Z")
	n.networks[made.ID] = &made
	write(w, http.StatusCreated, map[string]any{"network": n.withSubnets(&made)})
}

func (n *fakeNeutron) createSubnet(w http.ResponseWriter, r *http.Request) {
	var created wireSubnet
	if !decode(w, r, "subnet", &created) {
		return
	}
	of, ok := n.networks[created.NetworkID]
	if !ok {
		refuse(w, http.StatusNotFound, "NetworkNotFound", "Network could not be found.")
		return
	}
	n.made++
	created.ID = fmt.Sprintf("sub-%04d", n.made)
	n.subnets[created.ID] = &created
	of.Revision++
	write(w, http.StatusCreated, map[string]any{"subnet": created})
}

func (n *fakeNeutron) createPort(w http.ResponseWriter, r *http.Request) {
	var made wirePort
	if !decode(w, r, "port", &made) {
		return
	}
	n.made++
	made.ID, made.Revision, made.Created = fmt.Sprintf("port-%04d", n.made), 1, created("2026-01-02T03:04:05Z")
	n.addressed(&made)
	n.ports[made.ID] = &made
	write(w, http.StatusCreated, map[string]any{"port": made})
}

// serveOne answers a call about one resource. follow does what follows from a change or a deletion.
func serveOne[W any](
	w http.ResponseWriter, r *http.Request, name string, all map[string]*W, id string, revision func(*W) *client.Number,
	show func(*W) any, follow func(is *W, deleted bool),
) {
	held, ok := all[id]
	if !ok {
		kind := strings.ToUpper(name[:1]) + name[1:]
		refuse(w, http.StatusNotFound, kind+"NotFound", kind+" "+id+" could not be found.")
		return
	}
	match := r.Header.Get("If-Match")
	if match != "" && match != fmt.Sprint("revision_number=", *revision(held)) {
		refuse(w, http.StatusPreconditionFailed, "RevisionNumberConstraintFailed", "Constraint failed.")
		return
	}
	switch r.Method {
	case http.MethodGet:
		write(w, http.StatusOK, map[string]any{name: show(held)})
	case http.MethodPut:
		changed := *held
		if !decode(w, r, name, &changed) {
			return
		}
		*revision(&changed)++
		all[id] = &changed
		follow(&changed, false)
		write(w, http.StatusOK, map[string]any{name: show(&changed)})
	case http.MethodDelete:
		delete(all, id)
		follow(held, true)
		w.WriteHeader(http.StatusNoContent)
	}
}

const canaryBody = clienttest.Body

type (
	endpoint = clienttest.Endpoint
	direct   = clienttest.Direct
)

var (
	answer = clienttest.Answer
	refuse = clienttest.Refuse
	elapse = virtual.Elapse

	checkNoSecrets = clienttest.CheckNoSecrets
)

// fakeCloud is a clienttest.Cloud and how to reach it.
type fakeCloud struct {
	*clienttest.Cloud
	t testing.TB
}

func newFakeCloud(t testing.TB, neutron http.HandlerFunc) *fakeCloud {
	t.Helper()
	return &fakeCloud{clienttest.NewCloud(t, neutron), t}
}

// credentials lead to the cloud with the right password.
func (f *fakeCloud) credentials() client.Credentials {
	f.t.Helper()
	here, err := client.NewConfinement([]string{f.URL}, client.Credentials{}, false)
	expect.NoError(f.t, err)
	secret := map[string][]byte{client.SecretClouds: []byte(f.CloudsYAML())}
	credentials, err := client.SecretCredentials("test", secret, "", here)
	expect.NoError(f.t, err)
	return credentials
}

// cloud is a client of the fake with short deadlines.
func (f *fakeCloud) cloud(options client.Options) *client.Cloud {
	if options.Timeout == 0 {
		options.Timeout = 20 * time.Second
	}
	c := client.NewCloud(f.credentials(), options)
	f.t.Cleanup(c.Close)
	return c
}

// inBubble is a fake cloud without sockets, for tests in virtual time.
func inBubble(t testing.TB, neutron http.HandlerFunc, options client.Options) (*fakeCloud, *client.Cloud) {
	f := &fakeCloud{clienttest.Unserved(neutron), t}
	if options.Transport == nil {
		options.Transport = direct{Handler: f}
	}
	return f, client.NewCloud(f.credentials(), options)
}
