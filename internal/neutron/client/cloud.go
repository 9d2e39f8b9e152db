package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"go.opentelemetry.io/otel/trace"

	"cloudteam.ztgame.com/network-controller/internal/redact"
	"cloudteam.ztgame.com/network-controller/internal/tracing"
)

// Identity identifies one project of one cloud. The status of what was created there pins it.
type Identity struct {
	// Endpoint is the address of the Neutron API, ending with a slash.
	Endpoint string
	// Region is the endpoint's region in the catalog.
	Region string
	// ProjectID is the project that the credentials are scoped to.
	ProjectID string
}

// SameNeutron reports whether two identities are of one Neutron, though perhaps of two projects.
func (i Identity) SameNeutron(other Identity) bool {
	return i.Endpoint == other.Endpoint && i.Region == other.Region
}

// String describes the identity for users.
func (i Identity) String() string {
	text := "project " + i.ProjectID + " at " + i.Endpoint
	if i.Region != "" {
		text += " (region " + i.Region + ")"
	}
	return text
}

// Call is a finished request to Neutron or Keystone.
type Call struct {
	// Op names the operation, such as "create network".
	Op string
	// Creates is how many resources the call should create; 0 for other calls.
	Creates int
	// Duration is from the request to the last byte. A log-in before it is its own Call.
	Duration time.Duration
	// Err is nil for a success.
	Err error
}

// Options configure a Cloud. The zero value is usable.
type Options struct {
	// Timeout bounds each call, from connecting to the last byte; 0 means DefaultTimeout.
	Timeout time.Duration
	// PageSize is how many resources a list requests per page at the most; 0 means DefaultPageSize. It requests fewer
	// while pages take long.
	PageSize int
	// Probe is the collection that shows whether the cloud answers; see Run. One that Neutron serves from its database
	// shows most. The zero value means the API's extensions, which Neutron serves from memory.
	Probe Collection
	// UserAgent precedes gophercloud's own in requests.
	UserAgent string
	// Transport, if set, carries all requests instead of this process's own connections.
	Transport http.RoundTripper
	// Called, if set, is called after every call. It MUST be quick and safe for concurrent use.
	Called func(Call)
	// Permit, if set, is called once right before each write to Neutron is sent. If it returns an error, the write is not
	// sent. It fails with an *Error that wraps that error and is not MaybeDone. Reads and log-ins need no permit. Permit
	// MUST be quick and safe for concurrent use.
	Permit func() error
	// Slow, if set, is called when a call has waited for its answer for some seconds, in another goroutine.
	Slow func()
	// Outage, if set, is called when an outage begins and again when it ends; see Run. Calls to the Cloud wait for it: it
	// MUST be quick and MUST NOT call the Cloud.
	Outage func(Outage)
	// Memory, if set, limits what the lists of this cloud take together with others'. Tenant is whose cloud this is.
	Memory *Memory
	Tenant string
}

const (
	// DefaultTimeout is twice Neutron's default rpc_response_timeout. After that the server has given up, too.
	DefaultTimeout = 120 * time.Second
	// DefaultPageSize keeps an answer under a megabyte and its cost under half a second (0.8 ms per network). It is not a
	// round number because Neutron links to a next page whenever a page is full. So a list of a multiple of the page size
	// ends with an empty page. Fleets and quotas often have round sizes.
	DefaultPageSize = 501
	// loginPause is the pause after a failed log-in. If Keystone refuses the credentials, it doubles with each refusal up
	// to loginPauseLast. So a wrong password does not lock the account.
	loginPause     = 2 * time.Second
	loginPauseLast = time.Minute
	// slowAfter is how long a call waits before Options.Slow is called.
	slowAfter = 3 * time.Second
	// maxHeader bounds the bytes of an answer's header.
	maxHeader = 256 << 10
	// maxLogin bounds the bytes of a log-in's answer, which gophercloud decodes into many small values. The catalog of a
	// large cloud has some hundred kilobytes.
	maxLogin = 1 << 20
)

// bounds limit what a cloud may answer, so that no cloud uses up this process's memory.
type bounds struct {
	// answer is the most bytes of one answer, list those of all pages of one list. Small items and values count more than
	// their bytes; see itemCost and valueCost.
	answer, list int64
	// pages is the most pages of one list.
	pages int
}

// ownBounds are for the operator's clouds. A page of DefaultPageSize has less than a megabyte, but some lists come in
// one answer. They suffice for some 100,000 ports in one project. confinedBounds are for the clouds of users, of which
// there may be many. They suffice for some 13,000.
var (
	ownBounds      = bounds{answer: 64 << 20, list: 128 << 20, pages: 20_000}
	confinedBounds = bounds{answer: 8 << 20, list: 16 << 20, pages: 2_000}
)

// Cloud sends requests to one project of one cloud. It logs in at first use, and again when its token has expired. All
// methods are safe for concurrent use, end when their context does, and return an *Error when they fail.
type Cloud struct {
	options Options
	breaker *breaker
	lists   lists
	pages   pageSizes
	// access and session may be read at any time. Only the holder of login changes them. session is nil before the first
	// log-in.
	access  atomic.Pointer[access]
	session atomic.Pointer[session]

	// login is a lock: its holder puts a value into it, and logs in or reads what follows. It is a channel because a
	// caller that waits for another's log-in must stop when its own context ends.
	login       chan struct{}
	loginFailed error
	loginAgain  time.Time
	// refusals counts Keystone's refusals in a row.
	refusals int
	// onMove are called when a new session leads elsewhere than the last one; see OnMove. Only the holder of login uses
	// it.
	onMove []func(was, is Identity)
}

// access is what a log-in needs.
type access struct {
	credentials Credentials
	// transport carries every call, log-ins included, over the connections of base.
	transport, base http.RoundTripper
	bounds          bounds
}

func (a *access) op() string { return OpLogin + " to " + a.credentials.String() }

// session is the result of a successful log-in.
type session struct {
	provider *gophercloud.ProviderClient
	identity Identity
	// base is the identity's endpoint with the API's version, which some catalogs include.
	base string
	// roles are the names of the credentials' roles in the project, sorted.
	roles []string
	// renewable is false if the credentials are only a token.
	renewable bool
	// refused is true once the token was refused. It is not sent again.
	refused atomic.Bool
}

// NewCloud creates a Cloud. It sends nothing until first use.
func NewCloud(credentials Credentials, options Options) *Cloud {
	if options.Timeout <= 0 {
		options.Timeout = DefaultTimeout
	}
	if options.PageSize <= 0 {
		options.PageSize = DefaultPageSize
	}
	if options.Probe == (Collection{}) {
		options.Probe = Collection{One: "extension", Many: "extensions"}
	}
	if options.Called == nil {
		options.Called = func(Call) {}
	}
	if options.Outage == nil {
		options.Outage = func(Outage) {}
	}
	c := &Cloud{
		options: options, breaker: newBreaker(options.Outage), login: make(chan struct{}, 1),
		lists: lists{memory: options.Memory, tenant: options.Tenant, kept: map[string]int64{}},
	}
	c.access.Store(c.newAccess(credentials))
	return c
}

func (c *Cloud) newAccess(credentials Credentials) *access {
	base := c.options.Transport
	if base == nil {
		base = newTransport(credentials, c.options.Timeout)
	}
	discreet := redact.Transport{Next: base, Secrets: credentials.secretsOf}
	most := ownBounds
	if credentials.to != nil {
		most = confinedBounds
	}
	return &access{credentials, bounded{discreet, most.answer, &c.lists}, base, most}
}

// closeIdle closes unused connections.
func (a *access) closeIdle() {
	if t, ok := a.base.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// String names the cloud without secrets.
func (c *Cloud) String() string { return c.access.Load().credentials.String() }

// Identity returns the project and cloud of the credentials. It logs in if necessary.
func (c *Cloud) Identity(ctx context.Context) (Identity, error) {
	if identity, known := c.Known(); known {
		return identity, nil
	}
	if err := c.breaker.admit(c.access.Load().op()); err != nil {
		return Identity{}, err
	}
	s, err := c.connect(ctx)
	if err != nil {
		return Identity{}, err
	}
	return s.identity, nil
}

// Known returns the identity of the last log-in. It sends nothing.
func (c *Cloud) Known() (Identity, bool) {
	if s := c.session.Load(); s != nil {
		return s.identity, true
	}
	return Identity{}, false
}

// Roles returns the names of the credentials' roles in their project, sorted. It logs in if necessary.
func (c *Cloud) Roles(ctx context.Context) ([]string, error) {
	if _, err := c.Identity(ctx); err != nil {
		return nil, err
	}
	return c.session.Load().roles, nil
}

// OpLogin is the Op of log-ins.
const OpLogin = "log in"

// connect returns the session, and logs in if there is none with a valid token.
func (c *Cloud) connect(ctx context.Context) (*session, error) {
	s := c.session.Load()
	if s != nil && !s.refused.Load() {
		return s, nil
	}
	return c.reconnect(ctx, s)
}

// reconnect returns a session other than old, whose token was refused: another caller's, or that of a new log-in.
func (c *Cloud) reconnect(ctx context.Context, old *session) (*session, error) {
	if old != nil {
		old.refused.Store(true)
	}
	if err := c.holdLogin(ctx); err != nil {
		return nil, err
	}
	defer c.releaseLogin()
	if s := c.session.Load(); s != old && s != nil && !s.refused.Load() {
		return s, nil
	}
	if time.Now().Before(c.loginAgain) {
		return nil, c.loginFailed
	}
	s, err := c.logIn(ctx, c.access.Load())
	if err != nil {
		// If the caller left or had little time, the failure means nothing for others.
		if ctx.Err() == nil {
			pause := loginPause
			if KindOf(err) == Unauthenticated {
				pause = min(loginPause<<min(c.refusals, 10), loginPauseLast)
				c.refusals++
			}
			c.loginFailed, c.loginAgain = err, time.Now().Add(pause)
		}
		return nil, err
	}
	c.admitSession(s)
	return s, nil
}

// admitSession makes all calls use a new session. The caller holds login.
func (c *Cloud) admitSession(s *session) {
	if was := c.session.Swap(s); was != nil && was.identity != s.identity {
		for _, told := range c.onMove {
			told(was.identity, s.identity)
		}
	}
	c.loginFailed, c.loginAgain, c.refusals = nil, time.Time{}, 0
}

// OnMove registers moved. It is called when the credentials are for another project or cloud, before any call goes
// there. moved MUST be quick and MUST NOT call the Cloud.
func (c *Cloud) OnMove(moved func(was, is Identity)) {
	c.login <- struct{}{}
	defer c.releaseLogin()
	c.onMove = append(c.onMove, moved)
}

func (c *Cloud) holdLogin(ctx context.Context) error {
	select {
	case c.login <- struct{}{}:
		return nil
	case <-ctx.Done():
		return translateLogin(c.access.Load().op(), ctx.Err())
	}
}

func (c *Cloud) releaseLogin() { <-c.login }

// logIn logs in once and reports the Call.
func (c *Cloud) logIn(ctx context.Context, with *access) (*session, error) {
	bounded, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	bounded, span := tracing.Start(bounded, OpLogin, trace.WithSpanKind(trace.SpanKindClient))
	began := time.Now()
	defer c.watch()()
	defer c.breaker.wait()()
	s, err := c.authenticate(bounded, with)
	tracing.End(span, Word(err))
	c.options.Called(Call{Op: OpLogin, Duration: time.Since(began), Err: err})
	if with == c.access.Load() && signOf(ctx, err) == unanswered {
		// All calls need this log-in, because it is tried only without a valid token.
		c.breaker.failed(began, 1)
	}
	return s, err
}

// watch calls Options.Slow unless the function that it returns is called soon.
func (c *Cloud) watch() (stop func() bool) {
	if c.options.Slow == nil {
		return func() bool { return true }
	}
	return time.AfterFunc(slowAfter, c.options.Slow).Stop
}

// Replace logs in with other credentials and makes all later calls use them, with new connections. Calls under way
// continue unchanged. If the log-in fails, nothing changes and the old credentials stay in use.
//
// The other credentials may be for another project or cloud. What was read from the former, or planned with it, MUST
// NOT be written to the latter. See Within.
//
// An outage ends if they are for another Neutron. Otherwise a probe follows at once. A log-in shows that Keystone
// answers, and nothing about Neutron.
func (c *Cloud) Replace(ctx context.Context, credentials Credentials) error {
	with := c.newAccess(credentials)
	s, err := c.logIn(ctx, with)
	if err != nil {
		with.closeIdle()
		return err
	}
	if err := c.holdLogin(ctx); err != nil {
		with.closeIdle()
		return err
	}
	defer c.releaseLogin()
	was, old := c.access.Swap(with), c.session.Load()
	c.admitSession(s)
	// Connections in use close when they become idle: after this call a Transport keeps none.
	was.closeIdle()
	switch {
	case old == nil, old.identity.Endpoint != s.identity.Endpoint:
		c.breaker.reset()
	case c.OutageEnd() != nil:
		c.breaker.suspect()
	}
	return nil
}

// Close closes unused connections, and gives back what lists hold of Options.Memory. Call it when the Cloud is no
// longer used. A call that comes later still works.
func (c *Cloud) Close() {
	c.access.Load().closeIdle()
	c.lists.end()
}

func (c *Cloud) authenticate(ctx context.Context, with *access) (*session, error) {
	fail := func(err error) (*session, error) {
		e := translateLogin(with.op(), err)
		e.ofLogin()
		e.ledAway(err, with.credentials.auth)
		with.credentials.advise(e)
		return nil, e
	}

	if with.credentials.auth == nil {
		return fail(errors.New("no credentials are given: load them first"))
	}
	auth := with.credentials.auth()
	renewable := auth.AllowReauth
	// gophercloud's own renewal of a token ends for all who wait when the first caller's context ends. It is also tried
	// for every call.
	auth.AllowReauth = false
	provider, err := openstack.NewClient(auth.IdentityEndpoint)
	if err != nil {
		return fail(err)
	}
	provider.UseTokenLock()
	login := with.transport
	if to := with.credentials.to; to != nil {
		login = confined{login, to, isSecure(auth.IdentityEndpoint)}
	}
	provider.HTTPClient = http.Client{
		Transport: login,
		// Some of gophercloud's calls take no context.
		Timeout: c.options.Timeout,
		// A redirect would carry the token to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if c.options.UserAgent != "" {
		provider.UserAgent.Prepend(c.options.UserAgent)
	}
	if err := openstack.Authenticate(ctx, provider, auth); err != nil {
		return fail(err)
	}
	// From here on this client does not log in.
	provider.HTTPClient.Transport = Permitted{with.transport, c.options.Permit}
	identity, err := identify(provider, with.credentials.endpoint)
	if err == nil {
		err = with.credentials.to.downgrade(auth.IdentityEndpoint, identity)
	}
	if err != nil {
		return nil, &Error{Kind: Invalid, Op: with.op(), Reason: err.Error()}
	}
	base := identity.Endpoint
	if !strings.HasSuffix(base, "/v2.0/") {
		base += "v2.0/"
	}
	return &session{
		provider: provider, identity: identity, base: base, roles: rolesOf(provider), renewable: renewable,
	}, nil
}

func newTransport(credentials Credentials, timeout time.Duration) http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = credentials.tls
	// HTTP/2 sends all calls over one connection. If that hangs, all calls hang until their deadlines.
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	// Workers share one host. With the default of two idle connections they would reconnect all the time.
	transport.MaxIdleConnsPerHost = 64
	transport.ResponseHeaderTimeout = timeout
	transport.MaxResponseHeaderBytes = maxHeader
	if credentials.to != nil {
		// A proxy would choose the addresses itself, so they could not be checked.
		transport.Proxy = nil
		transport.DialContext = credentials.to.dial
	}
	return transport
}

// bounded is a transport that limits the size of answers. gophercloud reads whole bodies of log-ins and refusals,
// whatever their size. What is read of an answer takes memory of the tenant until its body is closed.
type bounded struct {
	http.RoundTripper
	bytes int64
	of    *lists
}

// answerStep is how many bytes of an answer take no memory, and how many are taken at a time beyond them.
const answerStep = 64 << 10

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	most := b.bytes
	if strings.HasSuffix(r.URL.Path, "/auth/tokens") {
		most = min(most, maxLogin)
	}
	response.Body = &boundedBody{ReadCloser: response.Body, left: most, limit: most, of: b.of}
	return response, nil
}

// boundedBody is a body that fails after so many bytes, or if its tenant may take no more.
type boundedBody struct {
	io.ReadCloser
	left, limit int64
	of          *lists
	// taken is what it takes of the memory.
	taken int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left > 0 {
		n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
		b.left -= int64(n)
		for b.limit-b.left > answerStep+b.taken {
			if full := b.of.memory.take(b.of.tenant, answerStep); full != nil {
				return n, &noMemory{full}
			}
			b.taken += answerStep
		}
		return n, err
	}
	var more [1]byte
	n, err := b.ReadCloser.Read(more[:])
	if n > 0 {
		return 0, &tooLarge{b.limit}
	}
	return 0, err
}

// Close implements io.Closer. It gives back the memory.
func (b *boundedBody) Close() error {
	b.of.memory.give(b.of.tenant, b.taken)
	b.taken = 0
	return b.ReadCloser.Close()
}

// noMemory is the error of an answer for which there is no memory.
type noMemory struct{ error }

// tooLarge is the error of an answer, or of a list, with more bytes than its limit.
type tooLarge struct{ limit int64 }

func (e *tooLarge) Error() string { return fmt.Sprintf("larger than the limit of %d MiB", e.limit>>20) }

// identify reads the project and Neutron's endpoint from the token. That avoids the version discovery of gophercloud's
// service clients.
func identify(provider *gophercloud.ProviderClient, want gophercloud.EndpointOpts) (Identity, error) {
	result, ok := provider.GetAuthResult().(tokens.CreateResult)
	if !ok {
		return Identity{}, errors.New("this is no log-in of Keystone v3: give an auth_url that ends with /v3")
	}
	project, err := result.ExtractProject()
	if err != nil || project == nil || project.ID == "" {
		return Identity{}, errors.New("the token is not scoped to a project: add project_name and project_domain_name")
	}
	catalog, err := result.ExtractServiceCatalog()
	if err != nil {
		return Identity{}, errors.New("the token comes without a catalog")
	}
	availability := want.Availability
	if availability == "" {
		availability = gophercloud.AvailabilityPublic
	}
	var found []Identity
	var regions []string
	for _, entry := range catalog.Entries {
		if entry.Type != "network" {
			continue
		}
		for _, endpoint := range entry.Endpoints {
			if endpoint.Interface != string(availability) ||
				want.Region != "" && want.Region != endpoint.Region && want.Region != endpoint.RegionID {
				continue
			}
			found = append(found, Identity{gophercloud.NormalizeURL(endpoint.URL), endpoint.Region, project.ID})
			regions = append(regions, endpoint.Region)
		}
	}
	slices.Sort(regions)
	if regions = slices.Compact(regions); len(regions) > 1 {
		// A catalog has no order: the next log-in may find another endpoint first.
		return Identity{}, fmt.Errorf("the catalog has %s endpoints of the network service in the regions %s: choose one "+
			"with region_name", availability, strings.Join(regions, ", "))
	}
	if len(found) > 0 {
		return found[0], nil
	}
	return Identity{}, fmt.Errorf("the catalog has no network service with a %s endpoint in region %q: check "+
		"region_name and interface", availability, want.Region)
}

// rolesOf reads the roles from the token. It needs none: a token without them has no rights.
func rolesOf(provider *gophercloud.ProviderClient) (names []string) {
	result, _ := provider.GetAuthResult().(tokens.CreateResult)
	roles, err := result.ExtractRoles()
	if err != nil {
		return nil
	}
	for _, role := range roles {
		names = append(names, role.Name)
	}
	slices.Sort(names)
	return names
}

// Request is one call to Neutron.
type Request struct {
	Op     string
	Method string
	// Path is below /v2.0/.
	Path  string
	query url.Values
	// Revision, if not nil, makes the call conditional on the resource's revision_number.
	Revision *int
	// Creates is how many resources the call should create.
	Creates int
	Body    any
	// Answer, if not nil, receives the decoded answer.
	Answer any
	// Date, if not nil, receives the time by Neutron's own clock, to the second. It stays as it is if the answer has none.
	Date *time.Time
	// size, if not nil, receives the bytes of the answer.
	size *int64
}

// okCodes are Neutron's success codes by method.
var okCodes = map[string][]int{
	http.MethodGet:    {http.StatusOK},
	http.MethodPost:   {http.StatusCreated},
	http.MethodPut:    {http.StatusOK},
	http.MethodDelete: {http.StatusNoContent},
}

// createdCodes are those with which a gateway may say that something was created. If the answer has it, its outcome is
// known.
var createdCodes = []int{http.StatusCreated, http.StatusAccepted, http.StatusOK}

// CreateAll creates resources of one collection, all or none. It returns them in the order of their bodies.
func (c *Cloud) CreateAll(
	ctx context.Context, op string, of Collection, bodies []map[string]any,
) ([]json.RawMessage, error) {
	var answer map[string]json.RawMessage
	r := Request{Op: op, Method: http.MethodPost, Path: of.Many, Answer: &answer, Creates: len(bodies)}
	if len(bodies) == 1 {
		r.Body = map[string]any{of.One: bodies[0]}
		if err := c.Do(ctx, r); err != nil {
			return nil, err
		}
		return []json.RawMessage{answer[of.One]}, nil
	}
	r.Body = map[string]any{of.Many: bodies}
	if err := c.Do(ctx, r); err != nil {
		return nil, err
	}
	var made []json.RawMessage
	if err := decode(op, r.Method, of.Many, answer, &made); err != nil {
		return nil, err
	}
	if len(made) != len(bodies) {
		return nil, BadAnswer(op, r.Method, "it has %d %s of %d", len(made), of.Many, len(bodies))
	}
	return made, nil
}

// Do sends a request, unless the cloud is in an outage, or it is a write that the context's permit forbids.
func (c *Cloud) Do(ctx context.Context, r Request) error {
	if r.Method != http.MethodGet {
		if err := AskPermit(ctx); err != nil {
			return NotPermitted(r.Op, err)
		}
	}
	if err := c.breaker.admit(r.Op); err != nil {
		return err
	}
	return c.exchange(ctx, r)
}

// exchange sends a request, and retries once with a new token if the old one has expired.
func (c *Cloud) exchange(ctx context.Context, r Request) error {
	s, err := c.connect(ctx)
	if err != nil {
		return err
	}
	err = c.send(ctx, s, r)
	refusal, ok := errors.AsType[*Error](err)
	switch {
	case !ok || refusal.Status != http.StatusUnauthorized:
		return err
	case !s.renewable:
		refusal.Reason += ": the token has expired or was revoked: write a new one, or credentials that can log in again"
		return err
	}
	// The token has expired. A call that got 401 was not executed.
	if s, err = c.reconnect(ctx, s); err != nil {
		return err
	}
	began := time.Now()
	err = c.send(ctx, s, r)
	if refusal, ok = errors.AsType[*Error](err); ok && refusal.Status == http.StatusUnauthorized {
		refusal.Fresh = true
		refusal.Reason += fmt.Sprintf(": Neutron at %s refuses the token that Keystone has just issued, so the credentials "+
			"are right: have the cloud's operator check how Neutron verifies tokens, or correct region_name if you mean "+
			"another Neutron", s.identity.Endpoint)
		if r.Op != opProbe {
			c.breaker.observe(began, signOf(ctx, err))
		}
	}
	return err
}

// send sends a request once and reports the Call.
func (c *Cloud) send(ctx context.Context, s *session, r Request) error {
	if err := Outside(ctx, r.Op, s.identity); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	bounded, span := r.trace(bounded)
	began := time.Now()
	defer c.watch()()
	if r.Op != opProbe { // only others' calls wait for it
		defer c.breaker.wait()()
	}
	r.recordSent(ctx)
	with := c.access.Load()
	err := r.send(bounded, s, with.bounds.answer)
	with.credentials.advise(err)
	if e, ok := errors.AsType[*Error](err); ok {
		e.ofNeutron(s.identity.Endpoint)
	}
	r.recordAnswer(ctx, began, err)
	endTrace(span, err)
	c.options.Called(Call{Op: r.Op, Creates: r.Creates, Duration: time.Since(began), Err: err})
	if r.Op != opProbe { // the prober judges the outcome itself
		c.breaker.observe(began, signOf(ctx, err))
	}
	return err
}

// send sends a request. Its answer may take so many bytes of memory.
func (r Request) send(ctx context.Context, s *session, most int64) error {
	address := s.base + r.Path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	options := &gophercloud.RequestOpts{
		JSONBody: r.Body, KeepResponseBody: true, OkCodes: okCodes[r.Method],
	}
	if r.Method == http.MethodPost && r.Answer != nil {
		options.OkCodes = createdCodes
	}
	if r.Revision != nil {
		options.MoreHeaders = map[string]string{"If-Match": "revision_number=" + strconv.Itoa(*r.Revision)}
	}
	response, err := s.provider.Request(ctx, r.Method, address, options)
	if err != nil {
		return translate(r.Op, r.Method, err)
	}
	defer response.Body.Close()
	noteAnswer(trace.SpanFromContext(ctx), response.StatusCode, requestOf(response.Header))
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return translate(r.Op, r.Method, err)
	}
	if r.size != nil {
		*r.size = int64(len(content))
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil && r.Date != nil {
		*r.Date = date
	}
	if r.Answer == nil {
		return nil
	}
	if int64(bytes.Count(content, []byte{','}))*valueCost > most {
		return BadAnswer(r.Op, r.Method, "its values are %s", &tooLarge{most})
	}
	if err := json.Unmarshal(content, r.Answer); err != nil {
		bad := BadAnswer(r.Op, r.Method, "%s", jsonProblem(err))
		_, bad.foreign = errors.AsType[*json.SyntaxError](err)
		return bad
	}
	return nil
}

// jsonProblem says what is wrong with a document without quoting it.
func jsonProblem(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("no JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind) && kind.Field == "":
		return "it is a " + kind.Value
	case errors.As(err, &kind):
		// encoding/json puts the names of our embedded types into the path. Neutron's names are in lower case.
		path := slices.DeleteFunc(strings.Split(kind.Field, "."), func(part string) bool {
			return part != strings.ToLower(part)
		})
		return fmt.Sprintf("field %s is a %s", strings.Join(path, "."), kind.Value)
	default:
		// Other errors of encoding/json quote the document.
		return "it is not of the expected form"
	}
}
