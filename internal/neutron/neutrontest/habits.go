package neutrontest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Habit is a way in which the Neutron of some cloud answers otherwise than Neutron does by default: its policy hides
// attributes, a plugin is missing or a vendor's own, or a gateway is in front of it.
type Habit string

// The habits. Those of descriptions leave nothing by which a resource is found again.
const (
	EmptyDescriptions  Habit = "emptydesc"
	ShortDescriptions  Habit = "truncdesc"
	HiddenDescriptions Habit = "nodescription"
	OldNetworks        Habit = "oldnets"
	NoStatus           Habit = "nostatus"
	TextNumbers        Habit = "textnumbers"
	AddedHostRoutes    Habit = "hostroutes"
	SortedDNSServers   Habit = "dnssorted"
	AcceptedCreates    Habit = "post202"
	DownStatus         Habit = "down"
	NullLists          Habit = "nulllists"
	VendorAttributes   Habit = "exhibit"
	UpperCaseIPv6      Habit = "upper"
	ProtocolNames      Habit = "icmpnames"
	LostDeletes        Habit = "delete404"
	SilentUpdates      Habit = "put200text"
	Unauthenticated    Habit = "unauthneutron"
	Redirects          Habit = "redirect"
	HTMLErrors         Habit = "html503"
	SlowAnswers        Habit = "slow"
	NoDate             Habit = "nodate"
	SkewedDates        Habit = "skew"
	InternalLinks      Habit = "httplinks"
	LateReads          Habit = "lag"
	ShortPages         Habit = "shortpage"
	DatedRetries       Habit = "retrydate"
	ZeroMTU            Habit = "mtu0"
	HiddenMTU          Habit = "nullmtu"
	OVNRouterPorts     Habit = "ovnrouters"
)

// KnownHabits says for users what each Habit is.
var KnownHabits = map[Habit]string{
	EmptyDescriptions:  "descriptions are accepted and stored empty",
	ShortDescriptions:  "descriptions are cut to 64 characters",
	HiddenDescriptions: "a policy leaves descriptions out of answers",
	OldNetworks:        "networks whose names begin with old- have no created_at",
	NoStatus:           "no status, created_at and updated_at",
	TextNumbers:        "numbers are written as texts",
	AddedHostRoutes:    "each IPv4 subnet has one more host route, to the metadata service",
	SortedDNSServers:   "DNS servers of a subnet come back sorted",
	AcceptedCreates:    "a create answers 202",
	DownStatus:         "status is DOWN everywhere",
	NullLists:          "empty lists are null",
	VendorAttributes:   "attributes of a vendor, some of them null",
	UpperCaseIPv6:      "IPv6 addresses in capital letters",
	ProtocolNames:      "protocols of rules are written by their other names",
	LostDeletes:        "a delete answers 404, and is done",
	SilentUpdates:      "the answer to an update has no body",
	Unauthenticated:    "Neutron answers 401 to each call; Keystone is fine",
	Redirects:          "Neutron answers 301, to https, to each call",
	HTMLErrors:         "a proxy answers 503 with a page for each call to Neutron",
	SlowAnswers:        "each call to Neutron takes three seconds",
	NoDate:             "answers have no header Date",
	SkewedDates:        "the clocks of the API servers differ by ten minutes",
	InternalLinks:      "links name a host that is not reached from outside",
	LateReads:          "what was created is not read before four seconds have passed",
	ShortPages:         "a policy hides a row of each page of the length of its limit, and so the link to the next",
	DatedRetries:       "each third write answers 429, with a date in Retry-After",
	ZeroMTU:            "mtu is 0",
	HiddenMTU:          "a policy leaves mtu out of answers",
	OVNRouterPorts:     "a new port of a router interface must be on a router, else 500 (OVN, Neutron 26 or later)",
}

// Habits are those of one address of a cloud. The zero value is none. Its methods are safe for concurrent use.
type Habits struct {
	set atomic.Pointer[map[Habit]bool]
	// count and turn number requests, so that some of them differ.
	count, turn atomic.Int64
	// born are the times of the answers that first showed an id after a create.
	born sync.Map
}

// Set replaces the habits. It refuses unknown ones.
func (h *Habits) Set(habits ...Habit) error {
	set := map[Habit]bool{}
	for _, habit := range habits {
		if _, known := KnownHabits[habit]; !known {
			return fmt.Errorf("no habit is called %q: write some of %v", habit, slices.Sorted(maps.Keys(KnownHabits)))
		}
		set[habit] = true
	}
	h.set.Store(&set)
	return nil
}

// Has reports whether a habit is one of them.
func (h *Habits) Has(habit Habit) bool {
	set := h.set.Load()
	return set != nil && (*set)[habit]
}

// Wrap is a cloud that answers with the habits. It is a middleware for [Server.Listen].
func (h *Habits) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		set := h.set.Load()
		if set == nil || len(*set) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		var ahead time.Duration // of the server whose turn it is
		if (*set)[SkewedDates] {
			ahead = time.Duration(h.turn.Add(1)%2) * skewness
		}
		date(*set, w.Header(), ahead)
		if path, network := below(networkPrefix, r.URL.Path); !network || path == "/" {
			if (*set)[InternalLinks] && r.Method == http.MethodGet {
				linkInside(w, r, next)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		if h.refuses(*set, w, r) {
			return
		}
		if (*set)[OVNRouterPorts] && makesRouterPort(r) {
			writeNeutronError(w, refuse(http.StatusInternalServerError, "HTTPInternalServerError",
				"Request Failed: internal server error while processing your request."))
			return
		}
		told := &answer{header: w.Header(), status: http.StatusOK}
		next.ServeHTTP(told, r)
		date(*set, w.Header(), ahead) // the cloud behind a transport has written its own
		h.late(*set, told, r)
		told.takeOn(*set, r.Method)
		if (*set)[ShortPages] && r.Method == http.MethodGet {
			told.shorten(r.URL.Query().Get("limit"))
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(told.status)
		_, _ = w.Write(told.body) // a client that went away is no concern of the server's
	})
}

// refuses answers a call to Neutron in its place, if a habit does.
func (h *Habits) refuses(set map[Habit]bool, w http.ResponseWriter, r *http.Request) bool {
	if set[SlowAnswers] {
		select {
		case <-time.After(slowness):
		case <-r.Context().Done():
		}
	}
	switch {
	case set[Unauthenticated]:
		writeJSON(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{
			"code": http.StatusUnauthorized, "title": "Unauthorized",
			"message": "The request you have made requires authentication.",
		}})
	case set[Redirects]:
		http.Redirect(w, r, "https://"+r.Host+r.URL.RequestURI(), http.StatusMovedPermanently)
	case set[HTMLErrors]:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("<html><body><h1>503 Service Unavailable</h1>\n" +
			"No server is available to handle this request.\n</body></html>\n"))
	case set[DatedRetries] && r.Method != http.MethodGet && h.count.Add(1)%3 == 1:
		w.Header().Set("Retry-After", time.Now().Add(slowness).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusTooManyRequests)
	default:
		return false
	}
	return true
}

const (
	// slowness is how long a call takes with SlowAnswers, and how long DatedRetries have a client wait.
	slowness = 3 * time.Second
	// lateness is how long LateReads hide what was created.
	lateness = 4 * time.Second
	// skewness is by how much the clocks of SkewedDates differ.
	skewness = 10 * time.Minute
	// inside is the host of InternalLinks.
	inside = "http://openstack.internal.example"
)

// date changes the header Date, to that of a server whose clock is ahead.
func date(set map[Habit]bool, header http.Header, ahead time.Duration) {
	switch {
	case set[NoDate]:
		header["Date"] = nil // net/http adds none then
	case set[SkewedDates]:
		header.Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
	}
}

// linkInside has an answer that lists versions name a host that is not reached from outside.
func linkInside(w http.ResponseWriter, r *http.Request, next http.Handler) {
	told := &answer{header: w.Header(), status: http.StatusOK}
	next.ServeHTTP(told, r)
	w.Header().Del("Content-Length")
	w.WriteHeader(told.status)
	_, _ = w.Write(bytes.ReplaceAll(told.body, []byte("http://"+r.Host), []byte(inside)))
}

// late hides from reads what was created a moment ago.
func (h *Habits) late(set map[Habit]bool, a *answer, r *http.Request) {
	if !set[LateReads] || a.status >= http.StatusMultipleChoices {
		return
	}
	var document map[string]any
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	if decoder.Decode(&document) != nil {
		return
	}
	young := func(o any) bool {
		resource, _ := o.(map[string]any)
		at, known := h.born.Load(resource["id"])
		return known && time.Since(at.(time.Time)) < lateness
	}
	switch r.Method {
	case http.MethodPost:
		walk(document, func(o map[string]any) {
			if id, ok := o["id"].(string); ok {
				h.born.LoadOrStore(id, time.Now())
			}
		})
	case http.MethodGet:
		for key, value := range document {
			if rows, list := value.([]any); list {
				document[key] = slices.DeleteFunc(rows, young)
			} else if young(value) {
				a.status = http.StatusNotFound
				document = map[string]any{"NeutronError": map[string]any{
					"type": strings.ToUpper(key[:1]) + key[1:] + "NotFound", "message": key + " could not be found.", "detail": "",
				}}
				break
			}
		}
		a.body = appendJSON(nil, document)
	}
}

// shorten hides a row without a marker of a page with as many rows as were asked for. The link to the next page goes
// with it, because Neutron counts the rows that are left.
func (a *answer) shorten(limit string) {
	var document map[string]any
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	if decoder.Decode(&document) != nil {
		return
	}
	for key, value := range document {
		rows, _ := value.([]any)
		if limit == "" || strconv.Itoa(len(rows)) != limit || strings.HasSuffix(key, "_links") {
			continue
		}
		foreign := slices.IndexFunc(rows, func(row any) bool {
			resource, _ := row.(map[string]any)
			description, _ := resource["description"].(string)
			return !strings.HasSuffix(description, "]")
		})
		if foreign < 0 {
			continue
		}
		document[key] = slices.Delete(rows, foreign, foreign+1)
		delete(document, key+"_links")
		a.body = appendJSON(nil, document)
		return
	}
}

// makesRouterPort reports whether a request creates a port of a router interface that is on no router. OVN's driver
// looks for the router before it looks whether there is one (_is_ovn_router_flavor_port in its mech_driver.py).
func makesRouterPort(r *http.Request) bool {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/ports") {
		return false
	}
	content, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(content))
	var body any
	if err != nil || json.Unmarshal(content, &body) != nil {
		return false
	}
	found := false
	walk(body, func(o map[string]any) {
		found = found || o["device_owner"] == ownerRouterInterface && (o["device_id"] == nil || o["device_id"] == "")
	})
	return found
}

// takeOn gives an answer the habits' form.
func (a *answer) takeOn(set map[Habit]bool, method string) {
	if a.status >= http.StatusMultipleChoices {
		return
	}
	if set[AcceptedCreates] && method == http.MethodPost {
		a.status = http.StatusAccepted
	}
	if set[LostDeletes] && method == http.MethodDelete {
		a.status = http.StatusNotFound
	}
	if set[SilentUpdates] && method == http.MethodPut {
		a.body = nil
	}
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	var document any
	if decoder.Decode(&document) != nil {
		return
	}
	habits := slices.Sorted(maps.Keys(set))
	walk(document, func(o map[string]any) {
		for _, h := range habits {
			if change := changes[h]; change != nil {
				change(o)
			}
		}
	})
	a.body = appendJSON(nil, document)
}

// walk calls change for each object in a document, the outer ones first.
func walk(document any, change func(map[string]any)) {
	switch v := document.(type) {
	case map[string]any:
		change(v)
		for _, of := range v {
			walk(of, change)
		}
	case []any:
		for _, of := range v {
			walk(of, change)
		}
	}
}

// shortened is how many characters of a description ShortDescriptions keeps.
const shortened = 64

// otherNames are those that some clouds have for protocols.
var otherNames = map[any]string{
	"icmpv6": "ipv6-icmp", "58": "ipv6-icmp", "112": "vrrp", "50": "esp", "51": "ah", "47": "gre", "132": "sctp",
}

// changes are what habits make of each object in an answer.
var changes = map[Habit]func(o map[string]any){
	EmptyDescriptions: func(o map[string]any) {
		if has(o, "description") {
			o["description"] = ""
		}
	},
	ShortDescriptions: func(o map[string]any) {
		if text, ok := o["description"].(string); ok {
			runes := []rune(text)
			o["description"] = string(runes[:min(len(runes), shortened)])
		}
	},
	HiddenDescriptions: func(o map[string]any) { delete(o, "description") },
	OldNetworks: func(o map[string]any) {
		if name, _ := o["name"].(string); has(o, "admin_state_up") && has(o, "subnets") && strings.HasPrefix(name, "old-") {
			delete(o, "created_at")
		}
	},
	NoStatus: func(o map[string]any) {
		for _, attribute := range []string{"status", "created_at", "updated_at"} {
			delete(o, attribute)
		}
	},
	TextNumbers: func(o map[string]any) {
		for attribute, value := range o {
			if number, ok := value.(json.Number); ok {
				o[attribute] = number.String()
			}
		}
	},
	AddedHostRoutes: func(o map[string]any) {
		routes, ok := o["host_routes"].([]any)
		cidr, _ := o["cidr"].(string)
		prefix, err := netip.ParsePrefix(cidr)
		if !ok || err != nil || !prefix.Addr().Is4() {
			return
		}
		const metadata = "169.254.169.254/32"
		routes = slices.DeleteFunc(routes, func(r any) bool { return r.(map[string]any)["destination"] == metadata })
		o["host_routes"] = append(routes, map[string]any{
			"destination": metadata, "nexthop": prefix.Masked().Addr().Next().Next().String(),
		})
	},
	SortedDNSServers: func(o map[string]any) {
		if servers, ok := o["dns_nameservers"].([]any); ok {
			slices.SortFunc(servers, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	},
	DownStatus: func(o map[string]any) {
		if _, ok := o["status"].(string); ok {
			o["status"] = "DOWN"
		}
	},
	NullLists: func(o map[string]any) {
		for attribute, value := range o {
			if list, ok := value.([]any); ok && len(list) == 0 && has(o, "id") {
				o[attribute] = nil
			}
		}
	},
	VendorAttributes: func(o map[string]any) {
		if has(o, "id") && has(o, "name") {
			o["vendor:object_id"], o["vendor:fq_name"], o["segments"] = nil, []any{"a", "b"}, nil
		}
	},
	ProtocolNames: func(o map[string]any) {
		if name, known := otherNames[o["protocol"]]; known {
			o["protocol"] = name
		}
	},
	ZeroMTU: func(o map[string]any) {
		if has(o, "mtu") {
			o["mtu"] = json.Number("0")
		}
	},
	HiddenMTU: func(o map[string]any) { delete(o, "mtu") },
	InternalLinks: func(o map[string]any) {
		if has(o, "rel") && has(o, "href") {
			o["href"] = inside + "/"
		}
	},
	UpperCaseIPv6: func(o map[string]any) {
		for _, attribute := range []string{"cidr", "gateway_ip", "ip_address"} {
			if text, ok := o[attribute].(string); ok && strings.Contains(text, ":") {
				o[attribute] = strings.ToUpper(text)
			}
		}
	},
}
