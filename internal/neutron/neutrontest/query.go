package neutrontest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// parameter is one key=value of a query string. Their order matters: paging links repeat it.
type parameter struct{ key, value string }

func parseParameters(raw string) []parameter {
	var out []parameter
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		out = append(out, parameter{unescape(key), unescape(value)})
	}
	return out
}

// unescape leaves what is not escaped well as it is, which is what the real server's framework does.
func unescape(s string) string {
	if out, err := url.QueryUnescape(s); err == nil {
		return out
	}
	return s
}

func encodeParameters(params []parameter) string {
	parts := make([]string, len(params))
	for i, p := range params {
		parts[i] = url.QueryEscape(p.key) + "=" + url.QueryEscape(p.value)
	}
	return strings.Join(parts, "&")
}

func without(params []parameter, keys ...string) []parameter {
	return slices.DeleteFunc(slices.Clone(params), func(p parameter) bool { return slices.Contains(keys, p.key) })
}

// sortKey is one attribute to sort by.
type sortKey struct {
	name       string
	descending bool
}

// listQuery is what a list request asks for.
type listQuery struct {
	params   []parameter
	fields   map[string]bool     // empty: all
	filters  map[string][]string // in canonical form
	sorts    []sortKey           // ends with the id
	limit    int                 // 0: all
	marker   string
	backward bool // page_reverse
}

// parse reads a query, or refuses it as Neutron does: filters first, then limit, then sort keys.
func (s *schema[R]) parse(raw string) (*listQuery, *apiError) {
	q := &listQuery{params: parseParameters(raw), fields: make(map[string]bool), filters: make(map[string][]string)}
	var strangers, keys, dirs []string
	limit := "0"
	for _, p := range q.params {
		switch p.key {
		case "fields":
			q.fields[p.value] = true
		case "sort_key":
			keys = append(keys, p.value)
		case "sort_dir":
			dirs = append(dirs, p.value)
		case "limit":
			limit = p.value
		case "marker":
			q.marker = p.value
		case "page_reverse":
			q.backward = strings.EqualFold(p.value, "true")
		default:
			if a := s.filter(p.key); a != nil {
				q.filters[p.key] = append(q.filters[p.key], p.value)
			} else if !slices.Contains(strangers, p.key) {
				strangers = append(strangers, p.key)
			}
		}
	}
	if err := s.canonical(q.filters); err != nil {
		return nil, err
	}
	if len(strangers) > 0 {
		return nil, badRequest("%s is invalid attribute for filtering", pyRepr(strangers))
	}
	n, err := strconv.Atoi(limit)
	if err != nil || n < 0 {
		return nil, badResource("limit", "Limit must be an integer 0 or greater and not '%s'", limit)
	}
	q.limit = n
	if s.whole {
		q.limit = 0
	}
	if q.limit == 0 {
		q.marker = "" // without a limit there are no pages, and the marker is not even looked at
	}
	var refusal *apiError
	q.sorts, refusal = s.sorting(keys, dirs)
	return q, refusal
}

// filter gives the attribute that a query parameter filters by, or nil.
func (s *schema[R]) filter(key string) *attribute[R] {
	if key == "project_id" {
		key = "tenant_id"
	}
	if a, ok := s.byName[key]; ok && a.access&filterable != 0 {
		return a
	}
	return nil
}

func (s *schema[R]) canonical(filters map[string][]string) *apiError {
	for _, key := range sortedKeys(filters) {
		a := s.filter(key)
		for i, text := range filters[key] {
			if a.filterForm != nil {
				if err := a.filterForm(text); err != nil {
					return err
				}
				continue
			}
			if a.convert == nil {
				continue
			}
			value, err := a.convert(text)
			if err != nil {
				return err
			}
			filters[key][i] = filterText(value)
		}
	}
	return nil
}

// filterText is the text by which values are compared in filters.
func filterText(v any) string {
	if v == nil {
		return "\x00none" // no parameter can say it
	}
	return fmt.Sprint(v)
}

func (s *schema[R]) sorting(keys, dirs []string) ([]sortKey, *apiError) {
	if len(keys) != len(dirs) {
		return nil, badRequest("The number of sort_keys and sort_dirs must be same")
	}
	var wrong []string
	for _, key := range keys {
		name := key
		if name == "project_id" {
			name = "tenant_id"
		}
		if a, ok := s.byName[name]; !ok || a.access&sortable == 0 {
			wrong = append(wrong, key)
		}
	}
	if len(wrong) > 0 {
		return nil, badRequest("%s is invalid attribute for sort_keys", pyRepr(wrong))
	}
	for _, dir := range dirs {
		if dir != "asc" && dir != "desc" {
			wrong = append(wrong, dir)
		}
	}
	if len(wrong) > 0 {
		return nil, badRequest("%s is invalid value for sort_dirs, valid value is 'asc' and 'desc'", pyRepr(wrong))
	}
	var out []sortKey
	byID := false
	for i, key := range keys {
		if key == "project_id" {
			key = "tenant_id"
		}
		byID = byID || key == "id"
		out = append(out, sortKey{name: key, descending: dirs[i] == "desc"})
	}
	if !byID {
		out = append(out, sortKey{name: "id"})
	}
	return out, nil
}

// passes is whether a resource is the viewer's to see and passes all filters.
func (s *schema[R]) passes(v *view, r R, filters map[string][]string) bool {
	if !s.seenBy(v, r) {
		return false
	}
	for key, want := range filters {
		a := s.filter(key)
		if a.match != nil {
			if !a.match(v, r, want) {
				return false
			}
		} else if !slices.Contains(want, filterText(a.get(v, r))) {
			return false
		}
	}
	return true
}

// page finds the resources that a list request asks for, in order. Sorted by id, which is the default, it costs what
// the page holds; any other order sorts everything that passes the filters.
func (s *schema[R]) page(v *view, t *table[R], q *listQuery) ([]R, *apiError) {
	if q.marker != "" {
		if m, ok := t.byID[q.marker]; !ok || !s.seenBy(v, m) {
			if s.strictMarker {
				return nil, s.notFound(q.marker)
			}
			q.marker = ""
		}
	}
	lists := t.candidates(q.filters)
	out := []R{}
	if q.sorts[0].name == "id" {
		for r := range inOrder(lists, q.marker, q.sorts[0].descending != q.backward) {
			if !s.shows(v, r, q) {
				continue
			}
			out = append(out, r)
			if q.limit > 0 && len(out) == q.limit {
				break
			}
		}
	} else {
		for r := range inOrder(lists, "", false) {
			if s.shows(v, r, q) {
				out = append(out, r)
			}
		}
		order := func(a, b R) int { return s.compare(v, q, a, b) }
		slices.SortFunc(out, order)
		if q.marker != "" {
			i, found := slices.BinarySearchFunc(out, t.byID[q.marker], order)
			if found {
				i++
			}
			out = out[i:]
		}
		if q.limit > 0 && len(out) > q.limit {
			out = out[:q.limit]
		}
	}
	if q.backward && q.limit > 0 {
		slices.Reverse(out)
	}
	return out, nil
}

// shows is whether a resource is in what a query lists.
func (s *schema[R]) shows(v *view, r R, q *listQuery) bool {
	return s.passes(v, r, q.filters) && (s.listedBy == nil || s.listedBy(v, r, q.fields))
}

// compare orders two resources by the query's sort keys; a backward query has them all turned round.
func (s *schema[R]) compare(v *view, q *listQuery, a, b R) int {
	for _, key := range q.sorts {
		get := s.byName[key.name].get
		c := compareValues(get(v, a), get(v, b))
		if key.descending != q.backward {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// compareValues orders values as the database does: nothing first, false before true.
func compareValues(a, b any) int {
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b)
		}
		return 1
	case int:
		if b, ok := b.(int); ok {
			return cmp.Compare(a, b)
		}
		return 1
	case bool:
		if b, ok := b.(bool); ok {
			return cmp.Compare(boolRank(a), boolRank(b))
		}
		return 1
	default:
		if b == nil {
			return 0
		}
		return -1
	}
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// link is one of the paging links of a list.
type link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// links are the paging links of a page with the given first and last ids. A full page always has a next one, even when
// nothing follows it.
func (q *listQuery) links(address, first, last string, length int) []link {
	if q.limit == 0 {
		return nil
	}
	short := length < q.limit
	var out []link
	if !short || q.backward {
		params := without(q.params, "marker", "page_reverse")
		if length > 0 {
			params = append(params, parameter{"marker", last})
		}
		out = append(out, link{"next", address + "?" + encodeParameters(params)})
	}
	if !short || !q.backward {
		params := without(q.params, "marker", "page_reverse")
		if length > 0 {
			params = append(params, parameter{"marker", first})
		}
		params = append(params, parameter{"page_reverse", "True"})
		out = append(out, link{"previous", address + "?" + encodeParameters(params)})
	}
	return out
}

// revisionTag is the form of the one ETag that Neutron understands.
const revisionTag = "revision_number="

// expectedRevision reads the If-Match header. Other ETags than a revision are ignored.
func expectedRevision(h http.Header) (*int, *apiError) {
	var expected *int
	for tag := range strings.SplitSeq(h.Get("If-Match"), ",") {
		text, ok := strings.CutPrefix(strings.Trim(strings.TrimSpace(tag), `"`), revisionTag)
		if !ok {
			continue
		}
		if expected != nil {
			return nil, badResource("if-match", "Multiple revision_number etags are not supported.")
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, badResource("if-match", "Revision number etag must be in the format of revision_number=<int>")
		}
		expected = &n
	}
	return expected, nil
}
