package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Confinement limits where a user's credentials may lead: to which identity endpoints, and to which addresses. The
// operator's own credentials have no limits. It is safe for concurrent use.
type Confinement struct {
	// allowed are the permitted identity endpoints; any is true if all are.
	allowed []identityEndpoint
	any     bool
	// loopback is true if the operator permits an identity endpoint on loopback.
	loopback bool
	// insecure is true if credentials may disable the verification of certificates.
	insecure bool
}

// AnyEndpoint permits all identity endpoints.
const AnyEndpoint = "*"

// NewConfinement creates a Confinement. allowed are the permitted identity endpoints, in three forms. A URL permits its
// path as a prefix, by whole segments. A host means https; without a port it permits any port. AnyEndpoint permits all.
// If allowed is empty, only the server of own is permitted: the same scheme, host and port.
//
// insecure permits credentials that disable the verification of certificates. An error names the element of allowed
// that is invalid.
func NewConfinement(allowed []string, own Credentials, insecure bool) (*Confinement, error) {
	c := &Confinement{insecure: insecure}
	for _, text := range allowed {
		if text == AnyEndpoint {
			c.any = true
			continue
		}
		e, err := parseEndpoint(text)
		if err != nil {
			return nil, err
		}
		c.allowed = append(c.allowed, e)
	}
	if len(allowed) == 0 && own.auth != nil {
		if u, err := url.Parse(own.auth().IdentityEndpoint); err == nil && u.Host != "" {
			c.allowed = append(c.allowed, identityEndpoint{
				scheme: u.Scheme, host: hostname(u), port: schemePort(u), text: u.Scheme + "://" + u.Host,
			})
		}
	}
	c.loopback = slices.ContainsFunc(c.allowed, identityEndpoint.onLoopback)
	return c, nil
}

// identityEndpoint is a set of URLs.
type identityEndpoint struct {
	scheme, host string
	// port is empty for any port.
	port string
	// path is a prefix without a trailing slash.
	path string
	// text is the endpoint as a URL, for messages.
	text string
}

func parseEndpoint(text string) (identityEndpoint, error) {
	isURL := strings.Contains(text, "://")
	address := text
	if !isURL {
		address = "https://" + text
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "http" && u.Scheme != "https" || !isURL && u.Path != "" || !plainPath(u) {
		return identityEndpoint{}, fmt.Errorf("%q is no identity endpoint: write a URL such as "+
			"https://keystone.example.com:5000, a host such as keystone.example.com, or %s for all", text, AnyEndpoint)
	}
	e := identityEndpoint{
		scheme: u.Scheme, host: hostname(u), port: u.Port(), path: strings.TrimSuffix(u.Path, "/"), text: address,
	}
	if isURL {
		e.port = schemePort(u)
	}
	return e, nil
}

// plainPath reports whether all servers read a URL's path the same way. They differ about dots and escapes.
func plainPath(u *url.URL) bool {
	p := strings.TrimSuffix(u.Path, "/")
	return u.EscapedPath() == u.Path && (p == "" || path.Clean(p) == p)
}

func hostname(u *url.URL) string { return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") }

func schemePort(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

// covers reports whether a URL is in the set.
func (e identityEndpoint) covers(u *url.URL) bool {
	return u.Scheme == e.scheme && hostname(u) == e.host && (e.port == "" || e.port == schemePort(u)) &&
		(u.Path == e.path || strings.HasPrefix(u.Path, e.path+"/"))
}

func (e identityEndpoint) onLoopback() bool {
	address, err := netip.ParseAddr(e.host)
	return e.host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// allows reports whether a user's credentials may be sent to a URL.
func (c *Confinement) allows(u *url.URL) bool {
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || !plainPath(u) {
		return false
	}
	return c.any || slices.ContainsFunc(c.allowed, func(e identityEndpoint) bool { return e.covers(u) })
}

// choices lists the permitted endpoints for a message.
func (c *Confinement) choices() string {
	if c.any {
		return "an http or https URL"
	}
	texts := make([]string, len(c.allowed))
	for i, e := range c.allowed {
		texts[i] = e.text
	}
	return strings.Join(texts, ", ")
}

// metadata are the addresses, besides link-local ones, at which cloud providers serve the metadata of virtual machines.
// These include the machine's own credentials: AWS (IPv6, with its other services for machines), Google Cloud (IPv6),
// Alibaba Cloud, Azure's WireServer, Oracle Cloud. Sources are the providers' own documentation of their metadata
// services.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("fd20:ce::254/128"),
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.192/32"),
}

// embedding are the prefixes of IPv6 addresses that contain an IPv4 address, by the byte where it begins: NAT64
// (RFC 6052, RFC 8215), 6to4 (RFC 3056), IPv4-translated (RFC 2765) and IPv4-compatible addresses (RFC 4291).
var embedding = map[netip.Prefix]int{
	netip.MustParsePrefix("64:ff9b::/96"):    12,
	netip.MustParsePrefix("64:ff9b:1::/48"):  12,
	netip.MustParsePrefix("2002::/16"):       2,
	netip.MustParsePrefix("::ffff:0:0:0/96"): 12,
	netip.MustParsePrefix("::/96"):           12,
}

// refuses describes an address to which no connection is permitted; empty if one is.
func (c *Confinement) refuses(address netip.Addr) string {
	address = address.WithZone("").Unmap()
	switch {
	case address.IsUnspecified():
		return "the unspecified address"
	case address.IsLoopback() && !c.loopback:
		return "a loopback address, of the controller itself"
	case address.IsLoopback():
		return ""
	}
	for prefix, at := range embedding {
		if prefix.Contains(address) {
			bytes := address.As16()
			return c.refuses(netip.AddrFrom4([4]byte(bytes[at : at+4])))
		}
	}
	switch {
	case slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(address) }):
		return "the address of a metadata service"
	case address.IsLinkLocalUnicast():
		return "a link-local address, as metadata services have them"
	case address.IsMulticast():
		return "a multicast address"
	}
	return ""
}

// dialTimeout and keepAlive are those of http.DefaultTransport.
const (
	dialTimeout = 30 * time.Second
	keepAlive   = 30 * time.Second
)

// dial connects to permitted addresses only. It checks each address after name resolution, so that a name cannot
// resolve to another address after the check.
func (c *Confinement) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		Timeout: dialTimeout, KeepAlive: keepAlive,
		Control: func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return &heldBack{Invalid, gateConfinement, errors.New("the address is not an IP address with a port")}
			}
			if what := c.refuses(to.Addr()); what != "" {
				return &heldBack{Invalid, gateConfinement, fmt.Errorf("%s is %s, where no cloud is looked for", to.Addr(), what)}
			}
			return nil
		},
	}
	return d.DialContext(ctx, network, address)
}

// confined is a transport for log-ins. It sends a user's credentials to permitted endpoints only, even if Keystone's
// version document leads elsewhere. It does not leave https.
type confined struct {
	http.RoundTripper
	to     *Confinement
	secure bool
}

// isSecure reports whether an address is one of https.
func isSecure(address string) bool {
	u, err := url.Parse(address)
	return err == nil && strings.EqualFold(u.Scheme, "https")
}

// downgrade is the error of a catalog that would have a user's token sent in the clear, though the log-in was not;
// nil if it does not.
func (c *Confinement) downgrade(authURL string, catalog Identity) error {
	if c == nil || !isSecure(authURL) || isSecure(catalog.Endpoint) {
		return nil
	}
	return errors.New("the catalog has a network service without https, and auth_url has https: the token would " +
		"be sent without encryption; have the cloud's operator register an https endpoint")
}

// RoundTrip implements http.RoundTripper.
func (c confined) RoundTrip(r *http.Request) (*http.Response, error) {
	if !c.to.allows(r.URL) || c.secure && !isSecure(r.URL.String()) {
		return refuseToSend(r, Invalid, gateConfinement, errors.New("the answer of Keystone names an identity endpoint "+
			"that the operator does not allow (--allowed-identity-endpoints): write an auth_url that ends with /v3"))
	}
	return c.RoundTripper.RoundTrip(r)
}
