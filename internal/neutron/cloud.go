package neutron

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
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
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
	// MaxCalls bounds the writes that are under way at a time, whatever the cloud's speed allows; 0 means
	// DefaultMaxCalls.
	MaxCalls int
	// UserAgent stands in front of gophercloud's own in requests.
	UserAgent string
	// Called, where set, is told of every call. It MUST be quick and safe for concurrent use.
	Called func(Call)
	// Permit, where set, is asked right before each write to Neutron is sent, more than once as a rule. Its error keeps
	// the write from being sent; the write then fails with an *Error that wraps it and is not MaybeDone. Reads and
	// log-ins are not asked for. It MUST be quick and safe for concurrent use.
	Permit func() error
}

const (
	// DefaultTimeout is twice the rpc_response_timeout that Neutron waits for its own parts by default: what takes
	// longer has been given up by the server, too.
	DefaultTimeout = 120 * time.Second
	// DefaultPageSize keeps an answer under a megabyte and its cost under half a second (0.8 ms per network).
	DefaultPageSize = 500
	// loginPause is how long a failed log-in stands before the next is tried, so that many workers with a wrong
	// password do not lock the account.
	loginPause = 2 * time.Second
	// maxAnswer bounds the bytes read of one answer.
	maxAnswer = 64 << 20
)

// Cloud speaks to one project of one cloud. It logs in when it is first used, and again when its token has run out. All
// methods are safe for concurrent use, end when their context does, and return an *Error when they fail.
type Cloud struct {
	credentials Credentials
	options     Options
	// transport carries every call, log-ins included.
	transport http.RoundTripper
	// broker has the writes wait for their turn, and creates go together.
	broker *broker

	// login is held, by a value in it, by who logs in or reads what follows. It is a channel because waiting for another's
	// log-in has to end with one's own context.
	login       chan struct{}
	session     *session
	loginFailed error
	loginAgain  time.Time
}

// session is a log-in that succeeded.
type session struct {
	provider *gophercloud.ProviderClient
	identity Identity
	// base is the identity's endpoint with the API's version, which some catalogs give with it.
	base string
}

// NewCloud makes a Cloud. Nothing is sent until it is used.
func NewCloud(credentials Credentials, options Options) *Cloud {
	if options.Timeout <= 0 {
		options.Timeout = DefaultTimeout
	}
	if options.PageSize <= 0 {
		options.PageSize = DefaultPageSize
	}
	if options.Called == nil {
		options.Called = func(Call) {}
	}
	c := &Cloud{
		credentials: credentials,
		options:     options,
		transport:   bounded{newTransport(credentials, options.Timeout), maxAnswer},
		login:       make(chan struct{}, 1),
	}
	c.broker = newBroker(options.MaxCalls, c.createAll)
	return c
}

// String names the cloud without secrets.
func (c *Cloud) String() string { return c.credentials.String() }

// Identity logs in, where that was not done yet, and tells which project of which cloud the credentials lead to.
func (c *Cloud) Identity(ctx context.Context) (Identity, error) {
	s, err := c.connect(ctx)
	if err != nil {
		return Identity{}, err
	}
	return s.identity, nil
}

const opLogin = "log in"

func (c *Cloud) opLogin() string { return opLogin + " to " + c.credentials.String() }

// connect gives the session, and logs in where there is none.
func (c *Cloud) connect(ctx context.Context) (*session, error) { return c.reconnect(ctx, nil) }

// reconnect gives a session other than old, whose token was refused: another's, or that of a new log-in.
func (c *Cloud) reconnect(ctx context.Context, old *session) (*session, error) {
	select {
	case c.login <- struct{}{}:
	case <-ctx.Done():
		return nil, translateLogin(c.opLogin(), ctx.Err())
	}
	defer func() { <-c.login }()
	if c.session != old && c.session != nil {
		return c.session, nil
	}
	if time.Now().Before(c.loginAgain) {
		return nil, c.loginFailed
	}
	bounded, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()

	began := time.Now()
	s, err := c.authenticate(bounded)
	c.options.Called(Call{Op: opLogin, Duration: time.Since(began), Err: err})
	if err != nil {
		// That a caller left, or had little time, tells others nothing.
		if ctx.Err() == nil {
			c.loginFailed, c.loginAgain = err, time.Now().Add(loginPause)
		}
		return nil, err
	}
	c.session = s
	return s, nil
}

func (c *Cloud) authenticate(ctx context.Context) (*session, error) {
	fail := func(err error) (*session, error) {
		e := translateLogin(c.opLogin(), err)
		if e.Kind == Unauthenticated || e.Status == http.StatusNotFound {
			e.Reason += ": check auth_url, user, password, project and their domains"
		}
		return nil, e
	}

	if c.credentials.auth == nil {
		return fail(errors.New("no credentials are given: load them first"))
	}
	auth := c.credentials.auth()
	// gophercloud's own renewal of a token ends for all who wait for it when the first one's context does, and is tried
	// for every call.
	auth.AllowReauth = false
	provider, err := openstack.NewClient(auth.IdentityEndpoint)
	if err != nil {
		return fail(err)
	}
	provider.UseTokenLock()
	provider.HTTPClient = http.Client{
		Transport: c.transport,
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
	if c.options.Permit != nil {
		// From here on the client does not log in any more.
		provider.HTTPClient.Transport = permitted{c.transport, c.options.Permit}
	}
	identity, err := identify(provider, c.credentials.endpoint)
	if err != nil {
		return nil, &Error{Kind: Invalid, Op: c.opLogin(), Reason: err.Error()}
	}
	base := identity.Endpoint
	if !strings.HasSuffix(base, "/v2.0/") {
		base += "v2.0/"
	}
	return &session{provider, identity, base}, nil
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
func (b bounded) CloseIdleConnections() {
	if t, ok := b.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

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

// request is one call to Neutron.
type request struct {
	op     string
	method string
	// path is below /v2.0/.
	path  string
	query url.Values
	// revision, where not nil, makes the call conditional on the resource's revision_number.
	revision *int
	// creates is how many resources the call is to create.
	creates int
	body    any
	// answer, where not nil, is what the answer is decoded into.
	answer any
}

// okCodes are what Neutron answers to each method when all is well.
var okCodes = map[string][]int{
	http.MethodGet:    {http.StatusOK},
	http.MethodPost:   {http.StatusCreated},
	http.MethodPut:    {http.StatusOK},
	http.MethodDelete: {http.StatusNoContent},
}

func (c *Cloud) do(ctx context.Context, r request) error {
	s, err := c.connect(ctx)
	if err != nil {
		return err
	}
	err = c.send(ctx, s, r)
	var refusal *Error
	if errors.As(err, &refusal) && refusal.Status == http.StatusUnauthorized && c.credentials.auth().AllowReauth {
		// The token has run out. A call that was answered with 401 was not carried out.
		if s, err = c.reconnect(ctx, s); err != nil {
			return err
		}
		err = c.send(ctx, s, r)
	}
	return err
}

// send sends a request once and reports it.
func (c *Cloud) send(ctx context.Context, s *session, r request) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	began := time.Now()
	err := r.send(ctx, s)
	c.options.Called(Call{Op: r.op, Creates: r.creates, Duration: time.Since(began), Err: err})
	return err
}

func (r request) send(ctx context.Context, s *session) error {
	address := s.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	options := &gophercloud.RequestOpts{
		JSONBody: r.body, KeepResponseBody: true, OkCodes: okCodes[r.method],
	}
	if r.revision != nil {
		options.MoreHeaders = map[string]string{"If-Match": "revision_number=" + strconv.Itoa(*r.revision)}
	}
	response, err := s.provider.Request(ctx, r.method, address, options)
	if err != nil {
		return translate(r.op, r.method, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return translate(r.op, r.method, err)
	}
	if r.answer == nil {
		return nil
	}
	if err := json.Unmarshal(content, r.answer); err != nil {
		return decodeError(r.op, r.method, "%s", jsonProblem(err))
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
