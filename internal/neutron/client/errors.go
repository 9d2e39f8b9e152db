package client

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gophercloud/gophercloud/v2"
)

// Kind says what an error means for the caller. An error that is not understood is Transient: to try again is the
// safe answer, and the others are an allow-list.
type Kind int

const (
	// Transient passes by itself: try again with backoff.
	Transient Kind = iota
	// Throttled asks to wait: try again after Wait.
	Throttled
	// Capacity is a quota or a pool that is full: try again slowly, it heals when the cloud's operator acts.
	Capacity
	// Invalid is a request that this cloud refuses, whatever the time: nothing helps but another spec, other
	// credentials or another configuration of the cloud.
	Invalid
	// NotFound is a resource that is not there (any more), by Neutron's own word.
	NotFound
	// Conflict is a resource that somebody else changed since it was read: read again, plan again.
	Conflict
	// InUse is a resource that something else still needs.
	InUse
	// Unauthenticated is a refusal of the credentials.
	Unauthenticated
	// Taken is an address or a MAC that is asked for and is another's: it heals when that one lets go of it, or when
	// another is asked for.
	Taken
	// Exhausted is a network that has no free address left, or a subnet pool that has no range: it heals when ports or
	// subnets go, or when there are more addresses.
	Exhausted
	// Forbidden is what the cloud's policy does not let these credentials do: other credentials help, or another spec.
	Forbidden
)

// String is the kind's name.
func (k Kind) String() string {
	switch k {
	case Transient:
		return "transient"
	case Throttled:
		return "throttled"
	case Capacity:
		return "capacity"
	case Invalid:
		return "invalid"
	case NotFound:
		return "not found"
	case Conflict:
		return "conflict"
	case InUse:
		return "in use"
	case Unauthenticated:
		return "unauthenticated"
	case Taken:
		return "taken"
	case Exhausted:
		return "exhausted"
	case Forbidden:
		return "forbidden"
	default:
		return "Kind(" + strconv.Itoa(int(k)) + ")"
	}
}

// Error is a request to the cloud that failed. Its text is fit for a user's eyes and the same for the same cause: it
// holds Neutron's own sentence and never a response body, a token or an ephemeral port.
type Error struct {
	Kind Kind
	// Op is what was tried: "create network".
	Op string
	// Reason is Neutron's sentence, or what became of the connection.
	Reason string
	// Type is Neutron's name for the error, such as OverQuota; empty where it did not give one.
	Type string
	// Status is the HTTP status; 0 where there was no answer.
	Status int
	// Wait is how long the cloud asked to wait; 0 where it did not ask.
	Wait time.Duration
	// MaybeDone is true of a write whose outcome is unknown: it may have been carried out all the same.
	MaybeDone bool
	// Unsent is true of a call that was kept back here: it tells nothing of the cloud that others did not tell already.
	Unsent bool
	// cause is for errors.Is alone (context.Canceled, what Options.Permit gave); it is never printed.
	cause error
}

// Error is one line: what was tried, the reason, and the error's type or status.
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

// RetryAfter is how long the cloud asked to wait; 0 where it did not ask.
func (e *Error) RetryAfter() time.Duration { return e.Wait }

// Unwrap gives the cause, for errors.Is.
func (e *Error) Unwrap() error { return e.cause }

// Overloaded reports whether the cloud could not serve a call, or not in time, whatever was asked.
func (e *Error) Overloaded() bool {
	if e.Unsent {
		return false
	}
	lost := e.Kind == Transient && e.Status == 0 && e.cause == nil
	return lost || e.Kind == Throttled || e.Status >= http.StatusInternalServerError && e.Kind == Transient
}

// OfLogin reports whether it is a log-in that failed, before the call that it was for.
func (e *Error) OfLogin() bool { return strings.HasPrefix(e.Op, OpLogin) }

// KindOf gives an error's kind. What is no *Error is Transient.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Transient
}

// IsNotFound reports whether err says that a resource is not there.
func IsNotFound(err error) bool { return IsKind(err, NotFound) }

// IsConflict reports whether err says that somebody else changed a resource since it was read.
func IsConflict(err error) bool { return IsKind(err, Conflict) }

// MaybeDone reports whether err leaves open if the write was carried out.
func MaybeDone(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.MaybeDone
}

// IsKind reports whether err is an *Error of the kind.
func IsKind(err error, kind Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}

// neutronError is the body of Neutron's refusals. A proxy or keystonemiddleware writes "error" instead, with a message.
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

// kindsByType are the refusals whose HTTP status alone says too little. Names are those of neutron_lib.exceptions,
// neutron.common.exceptions and neutron.services.trunk.exceptions.
var kindsByType = map[string]Kind{
	"NetworkInUse":                     InUse,
	"SubnetInUse":                      InUse,
	"ServicePortInUse":                 InUse,
	"PortInUseAsTrunkParent":           InUse,
	"PortInUseAsSubPort":               InUse,
	"GatewayIpInUse":                   InUse,
	"RouterInUse":                      InUse,
	"RouterInterfaceInUseByFloatingIP": InUse,
	"RouterInterfaceInUseByRoute":      InUse,
	// Its router leads outside for them.
	"RouterExternalGatewayInUseByFloatingIp": InUse,
	// The port that is to be a router's interface is one already.
	"PortInUse":                          Conflict,
	"ExternalIpAddressExhausted":         Capacity,
	"OverQuota":                          Capacity,
	"NoNetworkAvailable":                 Capacity,
	"SubnetPoolQuotaExceeded":            Capacity,
	"IpAddressGenerationFailure":         Exhausted,
	"SubnetAllocationError":              Exhausted, // a 500, with the reason
	"IpAddressAlreadyAllocated":          Taken,
	"IpAddressInUse":                     Taken,
	"MacAddressInUse":                    Taken,
	"RevisionNumberConstraintFailed":     Conflict,
	"GatewayConflictWithAllocationPools": Invalid,
	// All subnets are for devices of other kinds (service_types). Where just some are, Neutron answers 400.
	"IpAddressGenerationFailureNoMatchingSubnet": Invalid,
	// A segment, an availability zone or the like that the spec names: nothing was created, and the same is refused until
	// the cloud is another.
	"VlanIdInUse":              Invalid,
	"TunnelIdInUse":            Invalid,
	"FlatNetworkInUse":         Invalid,
	"AvailabilityZoneNotFound": Invalid,
	"InvalidSharedSetting":     InUse,
	"ExternalNetworkInUse":     InUse,
	"RbacPolicyInUse":          InUse,
	// It is there already.
	"DuplicateRbacPolicy": Conflict,
	// A policy went between its name and its use, or has rules that the network's drivers do not know.
	"QosPolicyNotFound":            Invalid,
	"QosRuleNotSupported":          Invalid,
	"QosRuleNotSupportedByNetwork": Invalid,
	// The network or subnet of a port that is not there is read again; nobody here reads security groups and subnet pools.
	"SecurityGroupNotFound": Invalid,
	"SubnetPoolNotFound":    Invalid,
}

// translate makes the package's own error of what gophercloud and net/http return for one request.
func translate(op, method string, err error) *Error {
	write := method != http.MethodGet
	if status, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		return translateStatus(op, write, status)
	}
	if refusal, ok := errors.AsType[*notPermitted](err); ok {
		return &Error{Kind: Transient, Op: op, Reason: OneLine("not sent: " + refusal.Error()), cause: refusal}
	}
	if refused, ok := errors.AsType[*forbidden](err); ok {
		return &Error{Kind: Invalid, Op: op, Reason: OneLine("not sent: " + refused.Error()), Unsent: true}
	}
	return &Error{
		Kind:      Transient,
		Op:        op,
		Reason:    connectionReason(err),
		MaybeDone: write && !neverSent(err),
		cause:     contextCause(err),
	}
}

// Interrupted is the error of a write that is not waited for any longer, because its context ended as err says.
func Interrupted(op string, err error) *Error { return translate(op, http.MethodPost, err) }

// translateLogin makes the package's own error of a log-in that failed. What Keystone, or a proxy in its place, answers
// to it says nothing of the resource that a call was about: were its 404 a NotFound, a network would pass for deleted.
func translateLogin(op string, err error) *Error {
	e := translate(op, http.MethodGet, err)
	switch {
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		e.Kind = Unauthenticated
	case e.Kind != Throttled && e.Kind != Invalid:
		e.Kind = Transient
	}
	return e
}

func translateStatus(op string, write bool, status gophercloud.ErrUnexpectedResponseCode) *Error {
	e := &Error{Op: op, Status: status.Actual, Wait: retryAfter(status.ResponseHeader)}
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
		e.Reason = strings.ToLower(cmp.Or(http.StatusText(status.Actual), "unexpected answer"))
	}

	kind, known := kindsByType[e.Type]
	switch {
	case known:
		e.Kind = kind
	case status.Actual == http.StatusBadRequest:
		e.Kind = Invalid
	case status.Actual == http.StatusForbidden:
		e.Kind = Forbidden
	case status.Actual == http.StatusUnauthorized:
		e.Kind = Unauthenticated
	case status.Actual == http.StatusNotFound && e.Type != "":
		// Neutron names the type. A proxy that has lost Neutron answers 404 without, and knows of no resource.
		e.Kind = NotFound
	case status.Actual == http.StatusPreconditionFailed:
		e.Kind = Conflict
	case status.Actual == http.StatusTooManyRequests, status.Actual == http.StatusRequestEntityTooLarge && e.Wait > 0:
		e.Kind = Throttled
	default:
		e.Kind = Transient
	}
	// A refusal by Neutron itself was not carried out. A 5xx may come from a proxy that lost the answer, and a success
	// that is not the one which the API promises is a success all the same.
	e.MaybeDone = write && !known &&
		(status.Actual >= http.StatusInternalServerError || status.Actual < http.StatusMultipleChoices)
	return e
}

// maxReason bounds what of Neutron's sentence is repeated in conditions and Events. The longest of its own sentences
// are about half as long.
const maxReason = 500

// OneLine makes a sentence of others fit for a condition: no line breaks, nothing that steers a terminal or the order
// of writing (Unicode's classes Cc and Cf), not too long.
func OneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf)
	}), " ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return strings.TrimRight(text, ". ")
}

// retryAfter reads Retry-After in seconds; the date form is not used by OpenStack. Nothing asks for more than an hour.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}

// neverSent reports whether a request failed before a byte of it could reach the server.
func neverSent(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	var dns *net.DNSError
	return errors.As(err, &dns)
}

// connectionReason says what became of a connection, without the parts that differ from one attempt to the next.
func connectionReason(err error) string {
	var timeout net.Error
	var op *net.OpError
	var dns *net.DNSError
	var request *url.Error
	var certificate x509.CertificateInvalidError
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.As(err, &certificate) && certificate.Reason == x509.Expired && certificate.Cert != nil:
		// Its own text tells the time of day, and so would be a new one at each attempt.
		return fmt.Sprintf("the server's certificate has expired or is not valid yet: it is valid from %s to %s",
			certificate.Cert.NotBefore.UTC().Format(time.RFC3339), certificate.Cert.NotAfter.UTC().Format(time.RFC3339))
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

// unquoted is an error's text up to what it quotes: net/http quotes the answer that it does not understand.
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

// BadAnswer is an answer that is not what the API promises.
func BadAnswer(op, method, format string, args ...any) *Error {
	return &Error{
		Kind: Transient, Op: op, Reason: OneLine("unusable answer: " + fmt.Sprintf(format, args...)),
		MaybeDone: method != http.MethodGet,
	}
}
