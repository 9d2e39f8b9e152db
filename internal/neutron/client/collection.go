package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Collection is one collection of Neutron's API.
type Collection struct {
	// One is the JSON key of one resource. Many is the collection's path below the API's version.
	One, Many string
	// Bulk is true if Neutron accepts several resources in one POST.
	Bulk bool
	// Whole is true if Neutron neither pages the collection nor sorts it by id.
	Whole bool
}

// key returns the JSON key of many resources: the last element of the path, with underscores.
func (c Collection) key() string { return strings.ReplaceAll(path.Base(c.Many), "-", "_") }

// Path returns the path of one resource.
func (c Collection) Path(id string) string { return c.Many + "/" + url.PathEscape(id) }

// Identified is a resource with an id.
type Identified interface{ Key() string }

// restarts is how often a list starts again because its marker was deleted, before it fails as Transient.
const restarts = 5

// List lists a collection, page by page. It returns all or an error, never a part.
func List[W Identified](ctx context.Context, c *Cloud, op string, of Collection, query url.Values) ([]W, error) {
	var all []W
	r := &reading{of: &c.lists}
	defer r.drop()
	err := each(ctx, c, op, of, query, func() { all = nil }, func(item W, odd error) error {
		all = append(all, item)
		return odd
	}, r)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Each lists a collection, page by page, and gives each item to take. If an item cannot be decoded or has no id, it
// comes with an error and with those of its fields that can be. begin is called before the first item, and again if the
// list starts again. Only if the error is nil, take has received all. What it takes of Options.Memory is held until the
// next list of the same op.
func Each[W Identified](
	ctx context.Context, c *Cloud, op string, of Collection, query url.Values, begin func(), take func(W, error) error,
) error {
	r := &reading{of: &c.lists}
	defer r.drop()
	err := each(ctx, c, op, of, query, begin, take, r)
	if err == nil {
		r.keep(op)
	}
	return err
}

func each[W Identified](
	ctx context.Context, c *Cloud, op string, of Collection, query url.Values, begin func(), take func(W, error) error,
	r *reading,
) error {
	for range restarts {
		begin()
		r.drop()
		pages := maps.Clone(query)
		if !of.Whole {
			pages = c.Paged(query)
			pages.Set("limit", strconv.Itoa(c.pages.limit(of.Many, c.options.PageSize)))
		}
		err := follow(ctx, c, op, of, pages, take, r)
		if !IsNotFound(err) || IsNoSuchCollection(err) {
			return err
		}
		// The last resource of a page is the marker of the next page. Somebody has deleted it.
	}
	return &Error{Kind: Transient, Op: op, Reason: "resources are deleted faster than they are listed"}
}

// IsNoSuchCollection reports whether the cloud does not know the collection, because it lacks an extension. If Neutron
// knows the collection, its error names the resource instead.
func IsNoSuchCollection(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound && e.Type == "HTTPNotFound"
}

// follow reads a page and all pages after it. Neutron's link "next" decides whether there are more, because Neutron may
// return fewer per page than requested, and a page that is nearly full has another look after it. The link's address is
// not used. It changes the query.
func follow[W Identified](
	ctx context.Context, c *Cloud, op string, of Collection, query url.Values, take func(W, error) error, r *reading,
) error {
	most := c.access.Load().bounds
	limit, _ := strconv.Atoi(query.Get("limit"))
	seen := map[string]bool{}
	last := ""
	for range most.pages {
		asked, asking := time.Now(), limit
		p, err := readPage[W](ctx, c, op, of, query)
		took := time.Since(asked)
		if err != nil {
			if limit > 0 && took > longPage { // it may have failed because it was long
				c.pages.after(of.Many, limit, limit, c.options.PageSize, took)
			}
			return err
		}
		if r.bytes+p.cost > most.list {
			return BadAnswer(op, http.MethodGet, "its pages together are %s", &tooLarge{most.list})
		}
		if err := r.add(op, p.cost); err != nil {
			return err
		}
		for at, item := range p.items {
			id, odd := item.Key(), p.odd[at]
			if id == "" && odd == nil {
				odd = BadAnswer(op, http.MethodGet, "an item has no id")
			}
			// This also ends an endless loop if a server ignores marker.
			if seen[id] && id != "" {
				return BadAnswer(op, http.MethodGet, "%s is on two pages", id)
			}
			seen[id] = true
			if id != "" {
				last = id
			}
			if err := take(item, odd); err != nil {
				return err
			}
		}
		if limit > 0 {
			limit = c.pages.after(of.Many, limit, len(p.items), c.options.PageSize, took)
			query.Set("limit", strconv.Itoa(limit))
		}
		if len(p.items) == 0 || !p.more && !nearlyFull(len(p.items), asking) {
			return nil
		}
		if last == query.Get("marker") {
			return BadAnswer(op, http.MethodGet, "no item of a page has an id")
		}
		query.Set("marker", last)
	}
	return BadAnswer(op, http.MethodGet, "it has more than %d pages, which is the limit", most.pages)
}

// A page that takes long holds one of Neutron's workers, and whoever waits for it. Neutron's time for one resource
// differs by the kind and the credentials: for a tenant, a port costs as much as ten networks if each is on another
// network, because Neutron reads that network for its policy. So a list begins with few resources a page, and a page
// takes about a second. See docs/adr/0054.
const (
	longPage, shortPage     = 2 * time.Second, 500 * time.Millisecond
	firstPage, smallestPage = 101, 50
)

// pageSizes are how many resources of each collection a page has.
type pageSizes struct {
	mu sync.Mutex
	of map[string]int
}

// limit returns how many the next list asks for, most at the most.
func (p *pageSizes) limit(collection string, most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(cmp.Or(p.of[collection], firstPage), most)
}

// after returns how many to ask for, most at the most, after a page that took so long. It has so many resources, and
// limit were asked for.
func (p *pageSizes) after(collection string, limit, has, most int, took time.Duration) int {
	switch {
	case took > longPage:
		limit = max(min(limit, has)/2, min(limit, smallestPage))
	case took < shortPage && has >= limit:
		limit = min(limit*2, most)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string]int{}
	}
	p.of[collection] = limit
	return limit
}

// nearlyFull reports whether a page may have lost its link. Neutron counts the rows of a page after its policy has
// hidden some (api/v2/base.py, _items), and takes a page with fewer than the limit for the last one.
func nearlyFull(rows, limit int) bool { return rows < limit && 10*rows >= 9*limit }

// Page reads one answer to a query, and reports whether there are more.
func Page[W any](
	ctx context.Context, c *Cloud, op string, of Collection, query url.Values,
) (items []W, more bool, err error) {
	p, err := readPage[W](ctx, c, op, of, query)
	for _, odd := range p.odd {
		return nil, false, odd
	}
	return p.items, p.more, err
}

// page is one answer to a list.
type page[W any] struct {
	items []W
	// odd are the errors of the items that cannot be decoded, by their places.
	odd map[int]error
	// more is true if other pages follow.
	more bool
	// cost is the memory that the page takes, in bytes; see itemCost.
	cost int64
}

func readPage[W any](
	ctx context.Context, c *Cloud, op string, of Collection, query url.Values,
) (p page[W], err error) {
	var answer map[string]json.RawMessage
	var size int64
	err = c.Do(ctx, Request{
		Op: op, Method: http.MethodGet, Path: of.Many, query: query, Answer: &answer, size: &size,
	})
	if err != nil {
		return page[W]{}, err
	}
	p, err = decodePage[W](op, of, answer, c.access.Load().bounds.answer)
	p.cost = max(p.cost, size)
	return p, err
}

func decodePage[W any](op string, of Collection, answer map[string]json.RawMessage, most int64) (p page[W], err error) {
	all, err := member(op, http.MethodGet, of.key(), answer)
	if err != nil {
		return page[W]{}, err
	}
	if p.items, p.odd, err = decodeItems[W](op, all, most); err != nil {
		return page[W]{}, err
	}
	p.cost = int64(len(p.items)) * itemCost
	var links []struct {
		Rel string `json:"rel"`
	}
	if raw, ok := answer[of.key()+"_links"]; ok {
		if err := json.Unmarshal(raw, &links); err != nil {
			return page[W]{}, BadAnswer(op, http.MethodGet, "%s", jsonProblem(err))
		}
	}
	for _, link := range links {
		p.more = p.more || link.Rel == "next"
	}
	return p, nil
}

// decodeItems decodes the items of a list, of which some may be odd. It stops when they take more memory than most, in
// bytes: "{}" has two bytes, and takes hundreds.
func decodeItems[W any](op string, list json.RawMessage, most int64) (items []W, odd map[int]error, err error) {
	d := json.NewDecoder(bytes.NewReader(list))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, nil, BadAnswer(op, http.MethodGet, "it has no list")
	}
	items = []W{}
	for d.More() {
		if int64(len(items)+1)*itemCost > most {
			return nil, nil, BadAnswer(op, http.MethodGet, "its items are %s", &tooLarge{most})
		}
		var item W
		if err := d.Decode(&item); err != nil {
			// The decoder goes on after a field of another type.
			if odd == nil {
				odd = map[int]error{}
			}
			odd[len(items)] = BadAnswer(op, http.MethodGet, "%s", jsonProblem(err))
		}
		items = append(items, item)
	}
	return items, odd, nil
}

// Paged returns a copy of a query that asks for one page. Sorting by id keeps pages disjoint while resources come and
// go.
func (c *Cloud) Paged(query url.Values) url.Values {
	query = maps.Clone(query)
	query.Set("limit", strconv.Itoa(c.options.PageSize))
	query.Set("sort_key", "id")
	query.Set("sort_dir", "asc")
	return query
}

// Get reads one resource. A network comes without its subnets.
func Get[W Identified](
	ctx context.Context, c *Cloud, op string, of Collection, fields []string, id string,
) (w W, err error) {
	var answer map[string]json.RawMessage
	err = c.Do(ctx, Request{
		Op: op, Method: http.MethodGet, Path: of.Path(id), query: url.Values{"fields": fields}, Answer: &answer,
	})
	if err != nil {
		return w, err
	}
	if w, err = DecodeOne[W](op, http.MethodGet, of, answer); err == nil && w.Key() != id {
		err = BadAnswer(op, http.MethodGet, "it is not of %s %s", of.One, id)
	}
	return w, err
}

// DecodeOne extracts one resource from an answer.
func DecodeOne[W any](op, method string, of Collection, answer map[string]json.RawMessage) (w W, err error) {
	err = decode(op, method, of.One, answer, &w)
	return w, err
}

// member returns what an answer has below a key. An answer without it is an error: it is no empty list.
func member(op, method, key string, answer map[string]json.RawMessage) (json.RawMessage, error) {
	raw, ok := answer[key]
	if !ok || raw == nil || string(raw) == "null" {
		return nil, BadAnswer(op, method, "it has no %q", key)
	}
	return raw, nil
}

// decode decodes what an answer has below a key.
func decode(op, method, key string, answer map[string]json.RawMessage, into any) error {
	raw, err := member(op, method, key, answer)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return BadAnswer(op, method, "%s", jsonProblem(err))
	}
	return nil
}
