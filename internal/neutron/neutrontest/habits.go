package neutrontest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
)

// Habit is a way in which the Neutron of some cloud answers otherwise than Neutron 21 does by default: its policy hides
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
}

// Habits are those of one address of a cloud. The zero value is none. Its methods are safe for concurrent use.
type Habits struct {
	set atomic.Pointer[map[Habit]bool]
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
		if path, network := below(networkPrefix, r.URL.Path); set == nil || len(*set) == 0 || !network || path == "/" {
			next.ServeHTTP(w, r)
			return
		}
		if (*set)[Unauthenticated] {
			writeJSON(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{
				"code": http.StatusUnauthorized, "title": "Unauthorized",
				"message": "The request you have made requires authentication.",
			}})
			return
		}
		if (*set)[Redirects] {
			http.Redirect(w, r, "https://"+r.Host+r.URL.RequestURI(), http.StatusMovedPermanently)
			return
		}
		told := &answer{header: w.Header(), status: http.StatusOK}
		next.ServeHTTP(told, r)
		told.takeOn(*set, r.Method)
		w.Header().Del("Content-Length")
		w.WriteHeader(told.status)
		_, _ = w.Write(told.body) // a client that went away is no concern of the server's
	})
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
	UpperCaseIPv6: func(o map[string]any) {
		for _, attribute := range []string{"cidr", "gateway_ip", "ip_address"} {
			if text, ok := o[attribute].(string); ok && strings.Contains(text, ":") {
				o[attribute] = strings.ToUpper(text)
			}
		}
	},
}
