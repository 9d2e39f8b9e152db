package neutrontest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Where the two services are mounted under the server's address, as DevStack does it.
const (
	identityPrefix = "/identity"
	networkPrefix  = "/networking"
)

// Unlimited is the quota and the number of segments that never run out. Neutron writes it as -1.
const Unlimited = -1

// DefaultMaxMTU is the largest MTU of a vxlan segment on a physical network of 1500 bytes: 50 go to the encapsulation.
const DefaultMaxMTU = 1450

// DefaultTokenLifetime is Keystone's own default ([token] expiration).
const DefaultTokenLifetime = time.Hour

// Options say how a Server differs from the default one. The zero value is an empty cloud that answers at once,
// without quotas, with the projects "admin" and "tenant".
type Options struct {
	// Release is the Neutron whose answers it gives; [Neutron29] if zero.
	Release Release

	// Now is the clock for timestamps and for the expiry of tokens; time.Now by default.
	Now func() time.Time

	// Delay says how long a call takes, from what it was and did. The work is done when the call begins, the answer is
	// sent when the time is over. Nil means at once. See [FixedDelay] and [MeasuredDelay].
	Delay func(Call) time.Duration

	// Workers is the number of Neutron calls that may be in the works at a time; others wait for their turn. Zero
	// means any number. A Neutron with one API process is bound by its CPU, so one worker is what comes closest to it.
	Workers int

	// OnCall is called for every call when it has been answered. It may be called from many goroutines at once.
	OnCall func(Call)

	// TokenLifetime is how long a token is good for; [DefaultTokenLifetime] if zero.
	TokenLifetime time.Duration

	// BaseURL is the address under which clients reach the server, without a slash at its end. The catalog and the
	// paging links are made of it. If empty, they are made of the Host header of each request.
	BaseURL string

	// Quotas are the default limits per project by the name of the resource ("network", "subnet", "port", "router").
	// What is not mentioned is [Unlimited].
	Quotas map[string]int

	// MaxMTU is the largest MTU that a network can have, and the default one; [DefaultMaxMTU] if zero.
	MaxMTU int

	// Segments is the number of networks for which the cloud has segmentation ids; when they are gone, creating one
	// more answers 503 NoNetworkAvailable. Zero means [Unlimited].
	Segments int

	// Zones are the availability zones that a network may ask for; by default there is none, as in a cloud without agents.
	Zones []string

	// OVN has a router's revision move while it is deleted, as the ML2 driver for OVN does. A conditional deletion is
	// refused then.
	OVN bool

	// DeadHosts are those whose agents are not alive. Ports can be bound there, and the binding fails.
	DeadHosts []string

	// NewID makes the id of a resource of a collection, such as "networks"; random UUIDs by default. It gets one call at a
	// time.
	NewID func(collection string) string

	// ProjectID makes the id of a project from its name; a random one by default.
	ProjectID func(name string) string

	// Tenants are the names of further projects beside "admin" and "tenant". Each comes with a user of the same name,
	// who has the role "member" in it, and with a cloud of that name in the clouds.yaml.
	Tenants []string
}

// Server is the emulated cloud. It is safe for concurrent use; everything it knows is lost with it.
type Server struct {
	options  Options
	now      func() time.Time
	identity *identity
	calls    callLog
	turns    chan struct{} // one place per worker; nil without a limit

	mu       sync.RWMutex // guards everything below
	networks *table[*network]
	subnets  *table[*subnet]
	ports    *table[*port]
	routers  *table[*router]
	policies *table[*rbacPolicy]
	qos      *table[*qosPolicy]
	trunks   *table[*trunk]
	pools    *table[*subnetPool]
	groups   *table[*securityGroup]
	rules    *table[*groupRule]
	floating *table[*floatingIP]
	quotas   map[string]map[string]int // project to what was set for it
	segments segments

	kinds map[string]kind // by the collection's name in the path
}

var _ http.Handler = (*Server)(nil)

// New makes an empty cloud.
func New(options Options) *Server {
	if options.Release == 0 {
		options.Release = Neutron29
	}
	if options.TokenLifetime == 0 {
		options.TokenLifetime = DefaultTokenLifetime
	}
	if options.MaxMTU == 0 {
		options.MaxMTU = DefaultMaxMTU
	}
	if options.Segments == 0 {
		options.Segments = Unlimited
	}
	if options.NewID == nil {
		options.NewID = func(string) string { return newUUID() }
	}
	if options.ProjectID == nil {
		options.ProjectID = func(string) string { return newHexID() }
	}
	options.Quotas = maps.Clone(options.Quotas)
	s := &Server{
		options:  options,
		now:      options.Now,
		quotas:   make(map[string]map[string]int),
		segments: segments{limit: options.Segments, used: make(map[segment]bool)},
	}
	if s.now == nil {
		s.now = time.Now
	}
	if options.Workers > 0 {
		s.turns = make(chan struct{}, options.Workers)
	}
	s.identity = newIdentity(s.now, options)
	s.networks = newTable(map[string]func(*network) []string{
		"name": byName[*network], "description": byDescription[*network],
		"project_id": byProject[*network],
	})
	s.subnets = newTable(map[string]func(*subnet) []string{
		"name": byName[*subnet], "description": byDescription[*subnet], "project_id": byProject[*subnet],
		"network_id": func(r *subnet) []string { return []string{r.network.id} },
		"subnetpool_id": func(r *subnet) []string {
			if r.pool == nil {
				return nil
			}
			return []string{r.pool.id}
		},
	})
	s.pools = newTable(map[string]func(*subnetPool) []string{
		"name": byName[*subnetPool], "project_id": byProject[*subnetPool],
	})
	s.ports = newTable(map[string]func(*port) []string{
		"name": byName[*port], "description": byDescription[*port], "project_id": byProject[*port],
		"network_id": func(r *port) []string { return []string{r.network.id} },
		"device_id":  func(r *port) []string { return []string{r.deviceID} },
	})
	s.routers = newTable(map[string]func(*router) []string{
		"name": byName[*router], "description": byDescription[*router], "project_id": byProject[*router],
	})
	s.policies = newTable(map[string]func(*rbacPolicy) []string{
		"project_id": byProject[*rbacPolicy],
		"object_id":  func(r *rbacPolicy) []string { return []string{r.network.id} },
	})
	s.qos = newTable(map[string]func(*qosPolicy) []string{"name": byName[*qosPolicy]})
	s.groups = newTable(map[string]func(*securityGroup) []string{
		"name": byName[*securityGroup], "project_id": byProject[*securityGroup],
	})
	s.rules = newTable(map[string]func(*groupRule) []string{
		"project_id":        byProject[*groupRule],
		"security_group_id": func(r *groupRule) []string { return []string{r.group.id} },
		"remote_group_id":   func(r *groupRule) []string { return []string{r.remoteGroup} },
	})
	s.floating = newTable(map[string]func(*floatingIP) []string{
		"description": byDescription[*floatingIP], "project_id": byProject[*floatingIP],
		"port_id": func(r *floatingIP) []string {
			if r.port == nil {
				return nil
			}
			return []string{r.port.id}
		},
	})
	s.trunks = newTable(map[string]func(*trunk) []string{
		"project_id": byProject[*trunk], "port_id": func(r *trunk) []string { return []string{r.parent.id} },
	})
	s.kinds = map[string]kind{
		"networks":             s.networkKind(),
		"subnets":              s.subnetKind(),
		"ports":                s.portKind(),
		"routers":              s.routerKind(),
		"rbac-policies":        s.rbacKind(),
		"security-groups":      s.groupKind(),
		"security-group-rules": s.ruleKind(),
		"qos/policies":         s.qosKind(),
		"floatingips":          s.floatingIPKind(),
		"trunks":               s.trunkKind(),
		"subnetpools":          s.subnetPoolKind(),
	}
	return s
}

func byName[R record](r R) []string        { return []string{r.common().name} }
func byDescription[R record](r R) []string { return []string{r.common().description} }
func byProject[R record](r R) []string     { return []string{r.common().project} }

// ServeHTTP answers as Keystone below /identity and as Neutron below /networking. The root offers Keystone's versions,
// so that the bare address can serve as an auth URL.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := &answer{header: make(http.Header), status: http.StatusOK}
	var call Call
	if path, ok := below(networkPrefix, r.URL.Path); ok {
		if s.turns != nil {
			select {
			case s.turns <- struct{}{}:
				defer func() { <-s.turns }()
			case <-r.Context().Done():
				return
			}
		}
		call = s.serveNetwork(answer, r, path)
	} else if path, ok := below(identityPrefix, r.URL.Path); ok {
		call = s.serveIdentity(answer, r, path)
	} else {
		call = s.serveIdentity(answer, r, r.URL.Path)
	}
	call.Method, call.Status = r.Method, answer.status
	s.calls.add(call)
	if s.options.Delay != nil {
		wait(r, s.options.Delay(call))
	}
	answer.send(w)
	if s.options.OnCall != nil {
		s.options.OnCall(call)
	}
}

// wait returns when the time is over or when nobody waits for the answer any longer.
func wait(r *http.Request, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// below gives the rest of the path under a mount point.
func below(prefix, path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, prefix)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return rest, true
}

// base is the server's address as the client of this request knows it.
func (s *Server) base(r *http.Request) string {
	if s.options.BaseURL != "" {
		return s.options.BaseURL
	}
	scheme := "http"
	if forwarded := r.Header.Get("X-Forwarded-Proto"); forwarded != "" {
		scheme = forwarded // a proxy in front of the server speaks TLS for it
	} else if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// answer holds a response back until its time has come.
type answer struct {
	header http.Header
	status int
	body   []byte
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) { a.status = status }

func (a *answer) Write(data []byte) (int, error) {
	a.body = append(a.body, data...)
	return len(data), nil
}

func (a *answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.Header().Set("X-Openstack-Request-Id", "req-"+newUUID())
	w.WriteHeader(a.status)
	// A client that went away is no concern of the server's.
	_, _ = w.Write(a.body)
}

// newUUID makes a random UUID (version 4), the form of every Neutron id.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see its documentation
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// newHexID makes a UUID without its dashes, the form of every Keystone id.
func newHexID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see its documentation
	return hex.EncodeToString(b[:])
}
