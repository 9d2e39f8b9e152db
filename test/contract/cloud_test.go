package contract

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// cloud is one that the contract is held against.
type cloud struct {
	real    bool
	release neutrontest.Release
	authURL string
	admin   *session
	tenant  *session
}

// since reports whether the cloud's release answers so.
func (c *cloud) since(f neutrontest.Fact) bool { return f.In(c.release) }

// since is that of the cloud.
func (s *session) since(f neutrontest.Fact) bool { return f.In(s.release) }

// tenants is how some refusals call projects.
func (c *cloud) tenants() string {
	return either(c.since(neutrontest.RefusalsSayProject), "projects", "tenants")
}

// either gives one of two, by whether something is so.
func either[T any](is bool, then, otherwise T) T {
	if is {
		return then
	}
	return otherwise
}

// cloudConfig is what the tests need of an entry in a clouds.yaml.
type cloudConfig struct {
	Auth struct {
		AuthURL           string `json:"auth_url"`
		Username          string `json:"username"`
		Password          string `json:"password"`
		ProjectName       string `json:"project_name"`
		UserDomainID      string `json:"user_domain_id"`
		UserDomainName    string `json:"user_domain_name"`
		ProjectDomainID   string `json:"project_domain_id"`
		ProjectDomainName string `json:"project_domain_name"`
	} `json:"auth"`
}

func readClouds(text []byte) (admin, tenant cloudConfig, err error) {
	var file struct {
		Clouds map[string]cloudConfig `json:"clouds"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return admin, tenant, fmt.Errorf("read clouds.yaml: %w", err)
	}
	admin, hasAdmin := file.Clouds["admin"]
	tenant, hasTenant := file.Clouds["tenant"]
	if !hasAdmin || !hasTenant {
		return admin, tenant, errors.New("clouds.yaml needs the clouds \"admin\" and \"tenant\"")
	}
	return admin, tenant, nil
}

func newCloud(text []byte, isReal bool) (*cloud, error) {
	admin, tenant, err := readClouds(text)
	if err != nil {
		return nil, err
	}
	c := &cloud{real: isReal, authURL: strings.TrimSuffix(admin.Auth.AuthURL, "/")}
	// The real one serves one call at a time; more in flight only wait for each other.
	places := make(chan struct{}, 4)
	for _, s := range []struct {
		to     **session
		config cloudConfig
	}{{&c.admin, admin}, {&c.tenant, tenant}} {
		*s.to = &session{config: s.config, authURL: c.authURL, real: isReal, places: places}
		if err := (*s.to).login(); err != nil {
			return nil, err
		}
	}
	return c, c.recognise()
}

// recognise finds out which release the cloud has, by what its newest extensions bring.
func (c *cloud) recognise() error {
	a, err := c.tenant.send("GET", c.tenant.network+"/v2.0/extensions", nil, http.Header{"X-Auth-Token": {c.tenant.token}})
	if err != nil || a.status != http.StatusOK {
		return fmt.Errorf("list the extensions: %d %s: %w", a.status, a.raw, err)
	}
	c.release = neutrontest.ReleaseOf(func(alias string) bool { return strings.Contains(a.raw, `"`+alias+`"`) })
	c.admin.release, c.tenant.release = c.release, c.release
	return nil
}

var (
	realOnce  sync.Once
	realCloud *cloud
	errReal   error
)

// openstack gives the real cloud, or nil if the environment does not ask for one.
func openstack(t testing.TB) *cloud {
	t.Helper()
	if os.Getenv("CONTRACT_OPENSTACK") == "" {
		return nil
	}
	realOnce.Do(func() {
		text, err := os.ReadFile(os.Getenv("OS_CLIENT_CONFIG_FILE"))
		if err != nil {
			errReal = fmt.Errorf("CONTRACT_OPENSTACK is set, so OS_CLIENT_CONFIG_FILE must name a clouds.yaml: %w", err)
			return
		}
		realCloud, errReal = newCloud(text, true)
	})
	if errReal != nil {
		t.Fatal(errReal)
	}
	return realCloud
}

// emulator gives a new emulated cloud of a release, which nobody else uses.
func emulator(t testing.TB, release neutrontest.Release) *cloud {
	t.Helper()
	server := neutrontest.New(neutrontest.Options{Release: release, Zones: []string{"east", "west"}})
	c, err := newCloud([]byte(server.Start(t).CloudsYAML()), false)
	expect.NoError(t, err)
	expect.Equal(t, release, c.release, "the release that the extensions tell")
	return c
}

// onEveryCloud runs a test against the emulator of each release and, if there is one, against a real cloud.
func onEveryCloud(t *testing.T, test func(t *testing.T, c *cloud)) {
	t.Helper()
	t.Parallel()
	for _, release := range neutrontest.Releases {
		t.Run(fmt.Sprint("emulator", release), func(t *testing.T) {
			t.Parallel()
			test(t, emulator(t, release))
		})
	}
	if c := openstack(t); c != nil {
		t.Run("openstack", func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// inDepth runs a test against the emulators and, without -short, against a real cloud, which takes a tenth of a second for
// each request. With -short it is asked for one test of each class at least, and for each kind of request that the
// controller sends in its normal course. Left for later are values that the CRDs refuse, requests that the controller does
// not send, and the rare cases of an answer: only another version of Neutron changes them.
func inDepth(t *testing.T, test func(t *testing.T, c *cloud)) {
	t.Helper()
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		c.tenant.skipShort(t)
		test(t, c)
	})
}

// skipShort skips what a real cloud is asked without -short only.
func (s *session) skipShort(t *testing.T) {
	t.Helper()
	if s.real && testing.Short() {
		t.Skip("a real cloud is asked without -short only")
	}
}

// asEveryone runs a test on every cloud, as a tenant and as an administrator; on a real one with -short as a tenant.
func asEveryone(t *testing.T, test func(t *testing.T, s *session)) {
	t.Helper()
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		t.Run("tenant", func(t *testing.T) { test(t, c.tenant) })
		if !c.real || !testing.Short() {
			t.Run("admin", func(t *testing.T) { test(t, c.admin) })
		}
	})
}

// object is a decoded JSON object.
type object = map[string]any

// answer is what a request was answered with.
type answer struct {
	status int
	header http.Header
	body   object // nil if the body is not a JSON object
	raw    string
}

// session is a user with a token.
type session struct {
	config  cloudConfig
	authURL string
	real    bool
	release neutrontest.Release
	places  chan struct{}

	mu      sync.Mutex // guards token
	token   string
	project string
	network string // the endpoint of Neutron
}

func (s *session) credentials() object {
	auth := s.config.Auth
	return object{"auth": object{
		"identity": object{"methods": []string{"password"}, "password": object{"user": object{
			"name": auth.Username, "domain": domain(auth.UserDomainID, auth.UserDomainName), "password": auth.Password,
		}}},
		"scope": object{"project": object{
			"name": auth.ProjectName, "domain": domain(auth.ProjectDomainID, auth.ProjectDomainName),
		}},
	}}
}

func domain(id, name string) object {
	if id != "" {
		return object{"id": id}
	}
	return object{"name": cmp.Or(name, "Default")}
}

func (s *session) login() error {
	a, err := s.send("POST", s.authURL+"/auth/tokens", s.credentials(), nil)
	if err != nil {
		return err
	}
	if a.status != http.StatusCreated {
		return fmt.Errorf("log in as %s: %d %s", s.config.Auth.Username, a.status, a.raw)
	}
	var body struct {
		Token struct {
			Project struct{ ID string }
			Catalog []struct {
				Type      string
				Endpoints []struct{ Interface, URL string }
			}
		}
	}
	if err := json.Unmarshal([]byte(a.raw), &body); err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.project = a.header.Get("X-Subject-Token"), body.Token.Project.ID
	for _, service := range body.Token.Catalog {
		for _, endpoint := range service.Endpoints {
			if service.Type == "network" && endpoint.Interface == "public" {
				s.network = strings.TrimSuffix(endpoint.URL, "/")
			}
		}
	}
	if s.network == "" {
		return errors.New("the catalog has no public endpoint of type network")
	}
	return nil
}

// patience is how long a real cloud may be away, for a restart, before a test gives up.
const patience = 45 * time.Second

// send makes one request. A body is sent as it is if it is a string, and as JSON otherwise.
func (s *session) send(method, url string, body any, header http.Header) (answer, error) {
	var payload []byte
	switch body := body.(type) {
	case nil:
	case string:
		payload = []byte(body)
	default:
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return answer{}, fmt.Errorf("encode the body of %s %s: %w", method, url, err)
		}
	}
	s.places <- struct{}{}
	defer func() { <-s.places }()
	for deadline := time.Now().Add(patience); ; {
		request, err := http.NewRequest(method, url, bytes.NewReader(payload))
		if err != nil {
			return answer{}, err
		}
		maps.Copy(request.Header, header)
		if body != nil {
			request.Header.Set("Content-Type", "application/json")
		}
		response, err := http.DefaultClient.Do(request)
		// A refused connection has reached nobody, so the request can be repeated whatever it is.
		if s.real && errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(deadline) {
			<-time.After(200 * time.Millisecond)
			continue
		}
		if err != nil {
			return answer{}, err
		}
		raw, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return answer{}, err
		}
		a := answer{status: response.StatusCode, header: response.Header, raw: string(raw)}
		if json.Unmarshal(raw, &a.body) != nil {
			a.body = nil
		}
		return a, nil
	}
}

// do makes a request to Neutron; path is below its endpoint. header are names and values in turn.
func (s *session) do(t testing.TB, method, path string, body any, header ...string) answer {
	t.Helper()
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	h := http.Header{"X-Auth-Token": {token}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	a, err := s.send(method, s.network+path, body, h)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (s *session) get(t testing.TB, path string) answer {
	t.Helper()
	return s.do(t, "GET", path, nil)
}

// must fails the test unless the answer has the status.
func (a answer) must(t testing.TB, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.raw)
	}
	return a
}

// part gives a member of the body that is an object.
func (a answer) part(t testing.TB, name string) object {
	t.Helper()
	o, ok := a.body[name].(object)
	if !ok {
		t.Fatalf("the body has no object %q: %s", name, a.raw)
	}
	return o
}

// list gives a member of the body that is a list of objects.
func (a answer) list(t testing.TB, name string) []object {
	t.Helper()
	items, ok := a.body[name].([]any)
	if !ok {
		t.Fatalf("the body has no list %q: %s", name, a.raw)
	}
	out := make([]object, len(items))
	for i, item := range items {
		out[i] = item.(object)
	}
	return out
}

// refusal is an answer that says no, in Neutron's form. A message that varies is left empty.
type refusal struct {
	Status  int
	Type    string
	Message string
}

// refuses fails the test unless the answer is the refusal. {network} and {subnet} in the message stand for given ids.
func (a answer) refuses(t testing.TB, want refusal, ids ...string) {
	t.Helper()
	var body struct {
		NeutronError struct{ Type, Message, Detail string }
	}
	if err := json.Unmarshal([]byte(a.raw), &body); err != nil || body.NeutronError.Type == "" {
		t.Errorf("%d %s: not a NeutronError, want %+v", a.status, a.raw, want)
		return
	}
	got := refusal{a.status, body.NeutronError.Type, body.NeutronError.Message}
	if want.Message == "" {
		got.Message = ""
	}
	want.Message = strings.NewReplacer(ids...).Replace(want.Message)
	expect.Equal(t, want, got, "refusal")
	if body.NeutronError.Detail != "" {
		t.Errorf("detail = %q, which is always empty", body.NeutronError.Detail)
	}
}

// asked is what somebody asks for, and how it is refused.
type asked struct {
	ask  object
	want refusal
}

// refusesEach holds that each create in a collection is refused. Each has the members of base unless it says otherwise;
// members that are "DROP" are left out. ids are as those of refuses.
func (s *session) refusesEach(t *testing.T, collection string, base object, cases map[string]asked, ids ...string) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			s.create(t, collection, with(base, test.ask)).refuses(t, test.want, ids...)
		})
	}
}

// create asks for one resource. Members that are "DROP" are left out.
func (s *session) create(t testing.TB, collection string, attributes object) answer {
	t.Helper()
	maps.DeleteFunc(attributes, func(_ string, value any) bool { return value == "DROP" })
	return s.do(t, "POST", "/v2.0/"+collection, object{strings.TrimSuffix(collection, "s"): attributes})
}

// wantFields holds that a resource has the fields that are wanted, whatever others it has.
func wantFields(t testing.TB, resource, want object) {
	t.Helper()
	for key, value := range want {
		expect.Equal(t, value, resource[key], "%s", key)
	}
}

var names atomic.Int64

// unique gives a name that no other test uses, on a shared cloud either.
func unique() string {
	return fmt.Sprintf("contract-%d-%d-%d", os.Getpid(), time.Now().UnixNano()%1e9, names.Add(1))
}

// with gives an object with more members.
func with(base object, more object) object {
	out := make(object, len(base)+len(more))
	maps.Copy(out, base)
	maps.Copy(out, more)
	return out
}

// drop removes something when the test is over. That it is gone already is fine.
func (s *session) drop(t testing.TB, path string) {
	t.Helper()
	t.Cleanup(func() {
		if a := s.do(t, "DELETE", path, nil); a.status != http.StatusNoContent && a.status != http.StatusNotFound {
			t.Errorf("clean up: DELETE %s: %d %s", path, a.status, a.raw)
		}
	})
}

// make makes a resource that lives until the end of the test.
func (s *session) make(t testing.TB, path, kind string, attributes object) object {
	t.Helper()
	made := s.do(t, "POST", path, object{kind: attributes}).must(t, http.StatusCreated).part(t, kind)
	s.drop(t, path+"/"+id(made))
	return made
}

func (s *session) newNetwork(t testing.TB, attributes object) object {
	t.Helper()
	return s.make(t, "/v2.0/networks", "network", with(object{"name": unique()}, attributes))
}

// newSubnet makes a subnet, which goes with its network.
func (s *session) newSubnet(t testing.TB, network object, attributes object) object {
	t.Helper()
	a := s.do(t, "POST", "/v2.0/subnets", object{"subnet": with(object{
		"network_id": id(network), "ip_version": 4, "cidr": "10.0.0.0/24",
	}, attributes)})
	return a.must(t, http.StatusCreated).part(t, "subnet")
}

func (s *session) newPort(t testing.TB, network object, attributes object) object {
	t.Helper()
	return s.make(t, "/v2.0/ports", "port", with(object{"network_id": id(network)}, attributes))
}

func (s *session) newRouter(t testing.TB, attributes object) object {
	t.Helper()
	return s.make(t, "/v2.0/routers", "router", with(object{"name": unique()}, attributes))
}

func id(o object) string {
	s, _ := o["id"].(string)
	return s
}

func revision(o object) int {
	n, _ := o["revision_number"].(float64)
	return int(n)
}

// revisionOf reads the revision of a resource as it is now.
func (s *session) revisionOf(t testing.TB, singular string, o object) int {
	t.Helper()
	return revision(s.get(t, "/v2.0/"+singular+"s/"+id(o)).must(t, http.StatusOK).part(t, singular))
}

// idsOf are the ids of the resources that a query lists, in their order.
func (s *session) idsOf(t testing.TB, query string) []string {
	t.Helper()
	collection, _, _ := strings.Cut(query, "?")
	ids := []string{}
	for _, r := range s.get(t, query).must(t, http.StatusOK).list(t, path.Base(collection)) {
		ids = append(ids, id(r))
	}
	return ids
}
