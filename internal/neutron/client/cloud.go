package client

import (
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
	"sync"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"cloudteam.ztgame.com/network-controller/internal/redact"
)

// Identity tells one project of one cloud from every other. It is pinned in the status of what was made there.
type Identity struct {
	// Endpoint is the address of the Neutron API, ending with a slash.
	Endpoint string
	// Region is the endpoint's region in the catalog.
	Region string
	// ProjectID is the project that the credentials are scoped to.
	ProjectID string
}

// String is the identity for a person.
func (i Identity) String() string {
	text := "project " + i.ProjectID + " at " + i.Endpoint
	if i.Region != "" {
		text += " (region " + i.Region + ")"
	}
	return text
}

// Call is one request to Neutron or Keystone that has ended.
type Call struct {
	// Op is what was tried, such as "create network".
	Op string
	// Creates is how many resources the call was to create; 0 of any other call.
	Creates int
	// Duration is from the request to its last byte. Logging in, where that was needed, is a Call of its own.
	Duration time.Duration
	// Err is nil for a success.
	Err error
}

// Options tune a Cloud. The zero value is usable.
type Options struct {
	// Timeout bounds each call, from connecting to the last byte; 0 means DefaultTimeout.
	Timeout time.Duration
	// PageSize is how many resources a list asks for at a time; 0 means DefaultPageSize.
	PageSize int
	// Probe is the collection that is read to find out whether the cloud answers; see Run. One that Neutron serves from
	// its database tells most. The zero value means the API's extensions, which it serves from memory.
	Probe Collection
	// UserAgent stands in front of gophercloud's own in requests.
	UserAgent string
	// Transport, where set, carries all requests in the place of connections of this process's own.
	Transport http.RoundTripper
	// Called, where set, is told of every call. It MUST be quick and safe for concurrent use.
	Called func(Call)
	// Permit, where set, is asked once right before each write to Neutron is sent. When it returns an error, the write is
	// not sent and fails with an *Error that wraps it and is not MaybeDone. Reads and log-ins need no permit. It MUST be
	// quick and safe for concurrent use.
	Permit func() error
	// Outage, where set, is told when the cloud is found not to answer, and again when it does; see Run. It is called
	// from the goroutine that found out, once at a time, and MUST NOT call the Cloud. An outage that is over before its
	// beginning could be told is told by its end alone.
	Outage func(Outage)
}

const (
	// DefaultTimeout is twice the rpc_response_timeout that Neutron waits for its own parts by default: what takes
	// longer has been given up by the server, too.
	DefaultTimeout = 120 * time.Second
	// DefaultPageSize keeps an answer under a megabyte and its cost under half a second (0.8 ms per network). It is one
	// more than a round number: Neutron links to a next page whenever a page is full, so that a list of a multiple of the
	// page's size ends with an empty one, and fleets and quotas come in round numbers.
	DefaultPageSize = 501
	// loginPause is how long a failed log-in stands before the next is tried. Where Keystone refuses the credentials, it
	// doubles with each refusal up to loginPauseLast, so that a wrong password does not lock the account.
	loginPause     = 2 * time.Second
	loginPauseLast = time.Minute
	// maxAnswer bounds the bytes read of one answer.
	maxAnswer = 64 << 20
)

// Cloud speaks to one project of one cloud. It logs in when it is first used, and again when its token has run out. All
// methods are safe for concurrent use, end when their context does, and return an *Error when they fail.
type Cloud struct {
	options Options
	breaker *breaker
	// telling is held while Options.Outage is told.
	telling sync.Mutex
	// access and session may be read at any time, and are changed by who holds login. session is nil before the first
	// log-in.
	access  atomic.Pointer[access]
	session atomic.Pointer[session]

	// login is held, by a value in it, by who logs in or reads what follows. It is a channel because waiting for another's
	// log-in has to end with one's own context.
	login       chan struct{}
	loginFailed error
	loginAgain  time.Time
	// refusals counts the log-ins in a row that Keystone refused.
	refusals int
	// onMove are called when a session leads elsewhere than the last one; see OnMove. The holder of login reads and
	// writes it.
	onMove []func(was, is Identity)
}

// access is what it takes to log in.
type access struct {
	credentials Credentials
	// transport carries every call, log-ins included.
	transport http.RoundTripper
}

func (a *access) op() string { return OpLogin + " to " + a.credentials.String() }

// session is a log-in that succeeded.
type session struct {
	provider *gophercloud.ProviderClient
	identity Identity
	// base is the identity's endpoint with the API's version, which some catalogs give with it.
	base string
	// renewable is false where there is nothing but a token to log in with.
	renewable bool
	// refused is true once the token was: it is not shown again.
	refused atomic.Bool
}

// NewCloud makes a Cloud. Nothing is sent until it is used.
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
	c := &Cloud{options: options, breaker: newBreaker(), login: make(chan struct{}, 1)}
	c.access.Store(c.newAccess(credentials))
	return c
}

func (c *Cloud) newAccess(credentials Credentials) *access {
	next := c.options.Transport
	if next == nil {
		next = newTransport(credentials, c.options.Timeout)
	}
	discreet := redact.Transport{Next: next, Secrets: credentials.secretsOf}
	return &access{credentials, bounded{discreet, maxAnswer}}
}

// String names the cloud without secrets.
func (c *Cloud) String() string { return c.access.Load().credentials.String() }

// Identity logs in, where that was not done yet, and tells which project of which cloud the credentials lead to.
func (c *Cloud) Identity(ctx context.Context) (Identity, error) {
	if identity, known := c.known(); known {
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

// known is where the last log-in led.
func (c *Cloud) known() (Identity, bool) {
	if s := c.session.Load(); s != nil {
		return s.identity, true
	}
	return Identity{}, false
}

// OpLogin is the Op of Calls that are log-ins.
const OpLogin = "log in"

// connect gives the session, and logs in where there is none whose token is good.
func (c *Cloud) connect(ctx context.Context) (*session, error) {
	s := c.session.Load()
	if s != nil && !s.refused.Load() {
		return s, nil
	}
	return c.reconnect(ctx, s)
}

// reconnect gives a session other than old, whose token was refused: another's, or that of a new log-in.
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
		// That a caller left, or had little time, tells others nothing.
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

// admitSession has all calls made with a new session. The caller holds login.
func (c *Cloud) admitSession(s *session) {
	if was := c.session.Swap(s); was != nil && was.identity != s.identity {
		for _, told := range c.onMove {
			told(was.identity, s.identity)
		}
	}
	c.loginFailed, c.loginAgain, c.refusals = nil, time.Time{}, 0
}

// OnMove has moved called, before any call is made there, when the credentials lead to another project or cloud than
// before. It MUST be quick and MUST NOT call the Cloud.
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

// logIn logs in once and reports it.
func (c *Cloud) logIn(ctx context.Context, with *access) (*session, error) {
	bounded, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	began := time.Now()
	s, err := c.authenticate(bounded, with)
	c.options.Called(Call{Op: OpLogin, Duration: time.Since(began), Err: err})
	if with == c.access.Load() {
		c.tell(c.breaker.observe(began, signOfLogin(ctx, err)))
	}
	return s, err
}

// Replace logs in with other credentials, and has every call from then on use them and connections of their own. Calls
// that are under way end as they began. Where the log-in fails, nothing changes, and what is used keeps working.
//
// The other credentials may lead to another project or cloud: what was read of the former, or planned with it, MUST NOT
// become a write to the latter. See Within.
func (c *Cloud) Replace(ctx context.Context, credentials Credentials) error {
	with := c.newAccess(credentials)
	s, err := c.logIn(ctx, with)
	if err != nil {
		closeIdle(with.transport)
		return err
	}
	if err := c.holdLogin(ctx); err != nil {
		closeIdle(with.transport)
		return err
	}
	defer c.releaseLogin()
	was := c.access.Swap(with)
	c.admitSession(s)
	// Connections that are in use are closed when they are not: a Transport that was told so keeps none from then on.
	closeIdle(was.transport)
	// Where nobody was let in or recognized any more, that is over.
	c.tell(c.breaker.observe(time.Now(), answered))
	return nil
}

// CloseIdleConnections closes the connections that nobody uses now. It is for a Cloud that is used no more.
func (c *Cloud) CloseIdleConnections() { closeIdle(c.access.Load().transport) }

func closeIdle(transport http.RoundTripper) {
	if t, ok := transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

func (c *Cloud) authenticate(ctx context.Context, with *access) (*session, error) {
	fail := func(err error) (*session, error) {
		e := translateLogin(with.op(), err)
		if e.Kind == Unauthenticated || e.Status == http.StatusNotFound {
			e.Reason += ": check auth_url, user, password, project and their domains"
		}
		return nil, e
	}

	if with.credentials.auth == nil {
		return fail(errors.New("no credentials are given: load them first"))
	}
	auth := with.credentials.auth()
	renewable := auth.AllowReauth
	// gophercloud's own renewal of a token ends for all who wait for it when the first one's context does, and is tried
	// for every call.
	auth.AllowReauth = false
	provider, err := openstack.NewClient(auth.IdentityEndpoint)
	if err != nil {
		return fail(err)
	}
	provider.UseTokenLock()
	login := with.transport
	if to := with.credentials.to; to != nil {
		login = confined{login, to}
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
	// From here on the client does not log in any more.
	provider.HTTPClient.Transport = with.transport
	if c.options.Permit != nil {
		provider.HTTPClient.Transport = permitted{with.transport, c.options.Permit}
	}
	identity, err := identify(provider, with.credentials.endpoint)
	if err != nil {
		return nil, &Error{Kind: Invalid, Op: with.op(), Reason: err.Error()}
	}
	base := identity.Endpoint
	if !strings.HasSuffix(base, "/v2.0/") {
		base += "v2.0/"
	}
	return &session{provider: provider, identity: identity, base: base, renewable: renewable}, nil
}

func newTransport(credentials Credentials, timeout time.Duration) http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = credentials.tls
	// HTTP/2 would send all calls over one connection: if that hangs, all of them do, until their deadlines.
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	// Workers share one host; two idle connections, the default, would have them connect again and again.
	transport.MaxIdleConnsPerHost = 64
	transport.ResponseHeaderTimeout = timeout
	if credentials.to != nil {
		// A proxy would connect to addresses that it alone knows.
		transport.Proxy = nil
		transport.DialContext = credentials.to.dial
	}
	return transport
}

// bounded is a transport whose answers end after so many bytes. gophercloud reads the bodies of log-ins and of refusals
// whole, however long they are.
type bounded struct {
	http.RoundTripper
	bytes int64
}

// RoundTrip is that of http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body := response.Body
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(body, b.bytes), body}
	return response, nil
}

// CloseIdleConnections is for http.Client, which asks its transport for it.
func (b bounded) CloseIdleConnections() { closeIdle(b.RoundTripper) }

// identify reads the project and Neutron's endpoint from the token, which saves the version discovery that a
// gophercloud service client would ask Neutron for.
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
		// A catalog has no order: the first one may be another at the next log-in.
		return Identity{}, fmt.Errorf("the catalog has %s endpoints of the network service in the regions %s: choose one "+
			"with region_name", availability, strings.Join(regions, ", "))
	}
	if len(found) > 0 {
		return found[0], nil
	}
	return Identity{}, fmt.Errorf("the catalog has no network service with a %s endpoint in region %q: check "+
		"region_name and interface", availability, want.Region)
}

// Request is one call to Neutron.
type Request struct {
	Op     string
	Method string
	// Path is below /v2.0/.
	Path  string
	query url.Values
	// revision, where not nil, makes the call conditional on the resource's revision_number.
	Revision *int
	// Creates is how many resources the call is to create.
	Creates int
	Body    any
	// answer, where not nil, is what the answer is decoded into.
	Answer any
}

// okCodes are what Neutron answers to each method when all is well.
var okCodes = map[string][]int{
	http.MethodGet:    {http.StatusOK},
	http.MethodPost:   {http.StatusCreated},
	http.MethodPut:    {http.StatusOK},
	http.MethodDelete: {http.StatusNoContent},
}

// Do sends a request, unless the cloud is known not to answer.
func (c *Cloud) Do(ctx context.Context, r Request) error {
	if err := c.breaker.admit(r.Op); err != nil {
		return err
	}
	return c.exchange(ctx, r)
}

// exchange sends a request, again with a new token where that one has run out.
func (c *Cloud) exchange(ctx context.Context, r Request) error {
	s, err := c.connect(ctx)
	if err != nil {
		return err
	}
	err = c.send(ctx, s, r)
	var refusal *Error
	if errors.As(err, &refusal) && refusal.Status == http.StatusUnauthorized && s.renewable {
		// The token has run out. A call that was answered with 401 was not carried out.
		if s, err = c.reconnect(ctx, s); err != nil {
			return err
		}
		err = c.send(ctx, s, r)
	}
	return err
}

// send sends a request once and reports it.
func (c *Cloud) send(ctx context.Context, s *session, r Request) error {
	if err := Outside(ctx, r.Op, s.identity); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	began := time.Now()
	err := r.send(bounded, s)
	c.options.Called(Call{Op: r.Op, Creates: r.Creates, Duration: time.Since(began), Err: err})
	if r.Op != opProbe { // who probes judges the outcome
		c.tell(c.breaker.observe(began, signOf(ctx, err)))
	}
	return err
}

func (r Request) send(ctx context.Context, s *session) error {
	address := s.base + r.Path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	options := &gophercloud.RequestOpts{
		JSONBody: r.Body, KeepResponseBody: true, OkCodes: okCodes[r.Method],
	}
	if r.Revision != nil {
		options.MoreHeaders = map[string]string{"If-Match": "revision_number=" + strconv.Itoa(*r.Revision)}
	}
	response, err := s.provider.Request(ctx, r.Method, address, options)
	if err != nil {
		return translate(r.Op, r.Method, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return translate(r.Op, r.Method, err)
	}
	if r.Answer == nil {
		return nil
	}
	if err := json.Unmarshal(content, r.Answer); err != nil {
		return BadAnswer(r.Op, r.Method, "%s", jsonProblem(err))
	}
	return nil
}

// jsonProblem says what is wrong with a document and quotes nothing of it.
func jsonProblem(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("no JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind) && kind.Field == "":
		return "it is a " + kind.Value
	case errors.As(err, &kind):
		return fmt.Sprintf("field %s is a %s", kind.Field, kind.Value)
	default:
		// The other errors of encoding/json quote.
		return "it is not of the expected form"
	}
}
