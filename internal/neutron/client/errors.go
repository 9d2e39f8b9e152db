package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gophercloud/gophercloud/v2"
)

// Kind says what an error means for the caller. An unknown error is Transient, because a retry is the safe answer. The
// other kinds are an allow-list.
type Kind int

const (
	// Transient is temporary: retry with backoff.
	Transient Kind = iota
	// Throttled is a rate limit: retry after Wait.
	Throttled
	// Capacity is a quota or a pool that is full: retry slowly until the cloud's operator acts.
	Capacity
	// Invalid is a request that this cloud always refuses. It needs another spec, other credentials or another
	// configuration of the cloud.
	Invalid
	// NotFound is a resource that does not exist (any more), as Neutron itself says.
	NotFound
	// Conflict is a resource that somebody else changed since it was read: reread and plan again.
	Conflict
	// InUse is a resource that something else still needs.
	InUse
	// Unauthenticated is a refusal of the credentials.
	Unauthenticated
	// Taken is a requested address or MAC that another port has. It needs another address, or the other port must release
	// it.
	Taken
	// Exhausted is a network without a free address, or a subnet pool without a free range. It needs fewer ports or
	// subnets, or more addresses.
	Exhausted
	// Forbidden is what the cloud's policy denies to these credentials. It needs other credentials or another spec.
	Forbidden
	// NotKept is a write whose result would not be found again, because the cloud does not keep descriptions. It needs
	// another configuration of the cloud.
	NotKept
)

var kindNames = map[Kind]string{
	Transient: "transient", Throttled: "throttled", Capacity: "capacity", Invalid: "invalid", NotFound: "not found",
	Conflict: "conflict", InUse: "in use", Unauthenticated: "unauthenticated", Taken: "taken", Exhausted: "exhausted",
	Forbidden: "forbidden", NotKept: "not kept",
}

// String returns the kind's name.
func (k Kind) String() string { return kindNames[k] }

// Error is a failed request to the cloud. Its text is for users, and the same for the same cause. It contains Neutron's
// own sentence and never a response body, a token or an ephemeral port.
type Error struct {
	Kind Kind
	// Op names the operation: "create network".
	Op string
	// Reason is Neutron's sentence, or how the connection failed.
	Reason string
	// Type is Neutron's name for the error, such as OverQuota; empty if it gave none.
	Type string
	// Status is the HTTP status; 0 without an answer.
	Status int
	// Request is the cloud's id of the request (X-Openstack-Request-Id), by which its operator finds the request in its
	// logs; empty if it gave none. It differs from one attempt to the next, so it is no part of the text.
	Request string
	// Wait is how long the cloud asked to wait (Retry-After); 0 if it did not ask.
	Wait time.Duration
	// MaybeDone is true for a write with unknown outcome: Neutron may have executed it.
	MaybeDone bool
	// Gate is what held back a request in this process; empty for one that was sent.
	Gate Gate
	// Fresh is true if Neutron refused a token that Keystone had issued right before: the credentials are right.
	Fresh bool
	// foreign is true for an answer without the form of the API's: another server stands in the place of the API, or in
	// front of it. redirect is where it would have the request go; empty if it names no place.
	foreign  bool
	redirect string
	// untrusted is true if a server's certificate is signed by a CA that the credentials do not trust.
	untrusted bool
	// cause is only for errors.Is (context.Canceled, the error of Options.Permit); it is never printed.
	cause error
}

// Unsent reports whether this process held back the request: the error shows nothing new about the cloud.
func (e *Error) Unsent() bool { return e.Gate != "" }

// Error returns one line: the operation, the reason, and the error's type or status.
func (e *Error) Error() string {
	text := e.Op + ": " + e.Reason
	switch {
	case e.Type != "":
		text += " (" + e.Type + ")"
	case e.Status != 0:
		text += " (HTTP " + strconv.Itoa(e.Status) + ")"
	}
	return text
}

// RetryAfter returns how long the cloud asked to wait; 0 if it did not ask.
func (e *Error) RetryAfter() time.Duration { return e.Wait }

// RequestID returns the cloud's id of the request; empty if it gave none.
func (e *Error) RequestID() string { return e.Request }

// Unwrap returns the cause, for errors.Is.
func (e *Error) Unwrap() error { return e.cause }

// Overloaded reports whether the cloud could not serve a call, or not in time, whatever the request was.
func (e *Error) Overloaded() bool {
	if e.Unsent() {
		return false
	}
	lost := e.Kind == Transient && e.Status == 0 && e.cause == nil
	return lost || e.Kind == Throttled || e.Status >= http.StatusInternalServerError && e.Kind == Transient
}

// OfLogin reports whether the log-in before a call failed, and not the call itself.
func (e *Error) OfLogin() bool { return strings.HasPrefix(e.Op, OpLogin) }

// Foreign reports whether the answer was not of the API's form. Its Reason quotes no server.
func (e *Error) Foreign() bool { return e.foreign }

// ofLogin adds to the error of a log-in what to change.
func (e *Error) ofLogin() {
	switch {
	case e.redirect != "":
		e.Reason = fmt.Sprintf("it redirects to %s, which is not followed: if that is Keystone, write it as auth_url",
			strings.TrimSuffix(e.redirect, "/auth/tokens"))
	case e.foreign:
		e.Reason += ": this is no answer of Keystone: set auth_url to the address of Keystone, such as " +
			"https://HOST:5000/v3; the dashboard has another"
	case e.Kind == Unauthenticated, e.Status == http.StatusNotFound:
		e.Reason += ": check auth_url, user, password, project and their domains"
	}
}

// ledAway adds to the error of a log-in what to change if Keystone's list of versions named another host, which may be
// reached from inside the cloud alone. With a version in auth_url, that list is not asked for.
func (e *Error) ledAway(err error, auth func() gophercloud.AuthOptions) {
	var failed *url.Error
	if auth == nil || !errors.As(err, &failed) {
		return
	}
	meant, led := auth().IdentityEndpoint, origin(failed.URL)
	if !strings.HasSuffix(strings.TrimSuffix(meant, "/"), "/v3") && origin(meant) != led {
		e.Reason += ": Keystone's own links name " + led + ": write /v3 at the end of auth_url, and they are not followed"
	}
}

// ofNeutron adds to the error of a call which server answered, if it did not answer as Neutron does. at is Neutron's
// endpoint in the catalog.
func (e *Error) ofNeutron(at string) {
	switch {
	case e.redirect != "":
		e.Reason = fmt.Sprintf("Neutron at %s redirects to %s, which is not followed: have the cloud's operator register "+
			"that address in the catalog", at, origin(e.redirect))
	case e.foreign:
		e.Reason += fmt.Sprintf(": this is no answer of Neutron, which the catalog has at %s: check region_name and "+
			"interface, or have the cloud's operator check what answers there", at)
	}
}

// origin returns the scheme, host and port of a URL.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "another address"
	}
	return u.Scheme + "://" + u.Host
}

// KindOf returns an error's kind. An error that is no *Error is Transient.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Transient
}

// Word is the kind of an error in a word, for metrics and spans; empty without an error.
func Word(err error) string {
	if err == nil {
		return ""
	}
	return KindOf(err).String()
}

// IsNotFound reports whether err says that a resource does not exist.
func IsNotFound(err error) bool { return IsKind(err, NotFound) }

// IsConflict reports whether err says that somebody else changed a resource since it was read.
func IsConflict(err error) bool { return IsKind(err, Conflict) }

// MaybeDone reports whether err leaves open if the write was executed.
func MaybeDone(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.MaybeDone
}

// IsKind reports whether err is an *Error of the kind.
func IsKind(err error, kind Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == kind
}

// TypeOf returns Neutron's name for an error; empty if it is no *Error, or if Neutron gave none.
func TypeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Type
	}
	return ""
}

// Amended returns an error after change, which gets a copy of an *Error: other callers may have the same one. An error
// of another type stays as it is.
func Amended(err error, change func(*Error)) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	amended := *e
	change(&amended)
	return &amended
}

// neutronError is the body of Neutron's refusals. A proxy or keystonemiddleware uses "error" with a message instead.
type neutronError struct {
	NeutronError *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"NeutronError"`
	Error *struct {
		Message string `json:"message"`
		Title   string `json:"title"`
	} `json:"error"`
}

// kindsByType maps refusals whose HTTP status alone says too little. A 409 of another type that ends in InUse is InUse.
// The names are from neutron_lib.exceptions,
// neutron.common.exceptions and neutron.services.trunk.exceptions.
var kindsByType = map[string]Kind{
	"PortInUseAsTrunkParent":           InUse,
	"PortInUseAsSubPort":               InUse,
	"RouterInterfaceInUseByFloatingIP": InUse,
	"RouterInterfaceInUseByRoute":      InUse,
	// Floating IPs use the router's gateway.
	"RouterExternalGatewayInUseByFloatingIp": InUse,
	// An administrator gave the port a floating IP of another project. Its own project cannot delete the port.
	"FipAssociated": InUse,
	// No router leads from the port's subnet to the external network, or the port's address has a floating IP of it.
	"ExternalGatewayForFloatingIPNotFound": Invalid,
	"FloatingIPPortAlreadyAssociated":      Taken,
	// The port to attach is a router's interface already.
	"PortInUse":                          Conflict,
	"ExternalIpAddressExhausted":         Exhausted,
	"OverQuota":                          Capacity,
	"NoNetworkAvailable":                 Capacity,
	"SubnetPoolQuotaExceeded":            Capacity,
	"IpAddressGenerationFailure":         Exhausted,
	"SubnetAllocationError":              Exhausted, // a 500 with the reason
	"IpAddressAlreadyAllocated":          Taken,
	"IpAddressInUse":                     Taken,
	"MacAddressInUse":                    Taken,
	"RevisionNumberConstraintFailed":     Conflict,
	"GatewayConflictWithAllocationPools": Invalid,
	// All subnets are for other kinds of devices (service_types). If only some are, Neutron answers 400.
	"IpAddressGenerationFailureNoMatchingSubnet": Invalid,
	// The spec names a segment, an availability zone or the like. Nothing was created, and Neutron refuses the same
	// request until the cloud changes.
	"VlanIdInUse":              Invalid,
	"TunnelIdInUse":            Invalid,
	"FlatNetworkInUse":         Invalid,
	"AvailabilityZoneNotFound": Invalid,
	"InvalidSharedSetting":     InUse,
	// The policy exists already.
	"DuplicateRbacPolicy": Conflict,
	// A policy was deleted after its name was resolved, or has rules that the network's drivers do not know.
	"QosPolicyNotFound":            Invalid,
	"QosRuleNotSupported":          Invalid,
	"QosRuleNotSupportedByNetwork": Invalid,
	// A port's missing network or subnet is reread (NotFound). Nobody rereads security groups and subnet pools here.
	"SecurityGroupNotFound": Invalid,
	"SubnetPoolNotFound":    Invalid,
}

// translate converts the errors of gophercloud and net/http for one request to an *Error.
func translate(op, method string, err error) *Error {
	write := method != http.MethodGet
	if status, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		return translateStatus(op, write, status)
	}
	if held, ok := errors.AsType[*heldBack](err); ok {
		return &Error{
			Kind: held.kind, Op: op, Reason: notSent(held.gate, held.Error()), Gate: held.gate, cause: held.reason,
		}
	}
	return &Error{
		Kind:      Transient,
		Op:        op,
		Reason:    connectionReason(err),
		MaybeDone: write && !neverSent(err),
		untrusted: isUntrusted(err),
		cause:     contextCause(err),
	}
}

// Interrupted returns the error of a write whose caller stopped waiting, because its context ended with err.
func Interrupted(op string, err error) *Error { return translate(op, http.MethodPost, err) }

// NotPermitted returns the error of a write that was not sent, because a permit (see WithPermit) returned err.
func NotPermitted(op string, err error) *Error {
	return translate(op, http.MethodPost, &heldBack{Transient, GatePermit, err})
}

// translateLogin converts the error of a failed log-in. The answer of Keystone, or of a proxy, says nothing about the
// resource of a call. If its 404 became NotFound, an existing network would look deleted.
func translateLogin(op string, err error) *Error {
	e := translate(op, http.MethodGet, err)
	var syntax *json.SyntaxError
	var form *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &form) {
		e.Reason, e.foreign = "unexpected answer", true
	}
	switch {
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		e.Kind = Unauthenticated
	case e.Kind != Throttled && e.Kind != Invalid:
		e.Kind = Transient
	}
	return e
}

// requestID matches the ids that OpenStack gives to requests.
var requestID = regexp.MustCompile(`^req-[0-9a-f-]{36}$`)

// requestOf returns the id that the cloud gave to a request; empty if it gave none of OpenStack's form.
func requestOf(answer http.Header) string {
	if id := answer.Get("X-Openstack-Request-Id"); requestID.MatchString(id) {
		return id
	}
	return ""
}

func translateStatus(op string, write bool, status gophercloud.ErrUnexpectedResponseCode) *Error {
	e := &Error{
		Op: op, Status: status.Actual, Wait: retryAfter(status.ResponseHeader), Request: requestOf(status.ResponseHeader),
	}
	var body neutronError
	if json.Unmarshal(status.Body, &body) == nil {
		switch {
		case body.NeutronError != nil:
			e.Type, e.Reason = OneLine(body.NeutronError.Type), OneLine(body.NeutronError.Message)
		case body.Error != nil:
			e.Reason = OneLine(body.Error.Message)
		}
	}
	if e.Reason == "" {
		e.Reason = StatusReason(status.Actual)
		e.foreign = status.Actual < http.StatusInternalServerError && !slices.Contains(fromAnyServer, status.Actual)
		e.redirect = redirectOf(status)
	}

	kind, known := kindsByType[e.Type]
	switch {
	case known:
		e.Kind = kind
	case status.Actual == http.StatusConflict && strings.HasSuffix(e.Type, "InUse"):
		e.Kind = InUse
	case e.foreign:
		// Neutron says what it refuses. Whoever else answers has not judged the request.
		e.Kind = Transient
	case status.Actual == http.StatusBadRequest:
		e.Kind = Invalid
	case status.Actual == http.StatusForbidden:
		e.Kind = Forbidden
	case status.Actual == http.StatusUnauthorized:
		e.Kind = Unauthenticated
	case status.Actual == http.StatusNotFound && e.Type != "":
		// Neutron names the type. A proxy that cannot reach Neutron answers 404 without one and knows no resources.
		e.Kind = NotFound
	case status.Actual == http.StatusPreconditionFailed:
		e.Kind = Conflict
	case status.Actual == http.StatusTooManyRequests, status.Actual == http.StatusRequestEntityTooLarge && e.Wait > 0:
		e.Kind = Throttled
	default:
		e.Kind = Transient
	}
	// Neutron did not execute what it refused itself. A 5xx may come from a proxy that lost the answer, and another
	// refusal that is not Neutron's from one that kept it back. A success with another code than the API promises is still
	// a success.
	e.MaybeDone = write && !known && (status.Actual >= http.StatusInternalServerError ||
		status.Actual < http.StatusMultipleChoices || e.foreign && status.Actual >= http.StatusBadRequest)
	return e
}

// fromAnyServer are the statuses below 500 that mean the same without a word, whichever server answers.
var fromAnyServer = []int{
	http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests,
}

// StatusReason is the reason of an error whose answer gave none.
func StatusReason(status int) string {
	text := http.StatusText(status)
	if text == "" || status < http.StatusMultipleChoices {
		text = "unexpected answer"
	}
	return strings.ToLower(text)
}

// redirectOf returns where an answer redirects to, without what may be secret; empty if it does not.
func redirectOf(status gophercloud.ErrUnexpectedResponseCode) string {
	location := status.ResponseHeader.Get("Location")
	if location == "" || status.Actual/100 != 3 {
		return ""
	}
	from, err := url.Parse(status.URL)
	if err != nil {
		return ""
	}
	to, err := from.Parse(location)
	if err != nil {
		return ""
	}
	to.User, to.RawQuery, to.Fragment = nil, "", ""
	return OneLine(to.String())
}

// maxReason bounds, in bytes, how much of Neutron's sentence conditions and Events repeat. Neutron's longest own
// sentences are about half as long.
const maxReason = 500

// OneLine makes foreign text safe for a condition. It removes line breaks, and characters that control a terminal or
// the writing direction (Unicode's classes Cc and Cf). It limits the length.
func OneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf)
	}), " ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return strings.TrimRight(text, ". ")
}

// retryAfter reads Retry-After: seconds, or a date, as gateways write it. The result is at most one hour.
func retryAfter(header http.Header) time.Duration {
	const most = time.Hour
	text := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(most/time.Second))) * time.Second
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(header.Get("Date")) // the gateway's clock may be another one
	if err != nil {
		now = time.Now()
	}
	return min(max(until.Sub(now), 0), most)
}

// neverSent reports whether a request failed before any byte could reach the server.
func neverSent(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &dns) || errors.As(err, &certificate)
}

// isUntrusted reports whether nobody that the caller trusts has signed a server's certificate.
func isUntrusted(err error) bool {
	_, untrusted := errors.AsType[x509.UnknownAuthorityError](err)
	return untrusted
}

// connectionReason says why a connection failed, without the parts that differ from one attempt to the next.
func connectionReason(err error) string {
	var timeout net.Error
	var op *net.OpError
	var dns *net.DNSError
	var request *url.Error
	var certificate x509.CertificateInvalidError
	var large *tooLarge
	var full *noMemory
	switch {
	case errors.As(err, &full):
		return OneLine(unusable + full.Error())
	case errors.As(err, &large):
		return unusable + "it is " + large.Error()
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.As(err, &certificate) && certificate.Reason == x509.Expired && certificate.Cert != nil:
		// Its own text contains the time of day, and so would differ at each attempt.
		return fmt.Sprintf("the server's certificate has expired or is not valid yet: it is valid from %s to %s",
			certificate.Cert.NotBefore.UTC().Format(time.RFC3339), certificate.Cert.NotAfter.UTC().Format(time.RFC3339))
	case isUntrusted(err):
		// Its own text may quote the names in the certificate.
		return "certificate signed by unknown authority"
	case errors.As(err, &dns):
		return "looking up host " + dns.Name + ": " + dns.Err
	case errors.As(err, &op):
		if op.Op == "dial" && op.Addr != nil {
			return OneLine("connecting to " + op.Addr.String() + ": " + rootCause(op.Err).Error())
		}
		return OneLine("connection lost: " + rootCause(op.Err).Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the answer broke off"
	case errors.As(err, &request):
		return unquoted(rootCause(request.Err))
	default:
		return unquoted(rootCause(err))
	}
}

// unquoted returns an error's text up to the first quotation: net/http quotes answers that it does not understand.
func unquoted(err error) string {
	text, _, _ := strings.Cut(err.Error(), `"`)
	return strings.TrimRight(OneLine(text), ": ")
}

func rootCause(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

func contextCause(err error) error {
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return nil
}

// BadAnswer returns the error of an answer that breaks the API's promise.
func BadAnswer(op, method, format string, args ...any) *Error {
	return &Error{
		Kind: Transient, Op: op, Reason: OneLine(unusable + fmt.Sprintf(format, args...)),
		MaybeDone: method != http.MethodGet,
	}
}

// IsUnusable reports whether an answer came that breaks the API's promise.
func IsUnusable(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && strings.HasPrefix(e.Reason, unusable)
}

// unusable begins the reason of a BadAnswer.
const unusable = "unusable answer: "
