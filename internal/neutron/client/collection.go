package client

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Collection is one collection of Neutron's API.
type Collection struct {
	// One is the JSON key of one resource. Many is the collection's path below the API's version.
	One, Many string
	// Bulk is true if Neutron accepts several resources in one POST.
	Bulk bool
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
	err := Each(ctx, c, op, of, query, func() { all = nil }, collect(&all))
	if err != nil {
		return nil, err
	}
	return all, nil
}

// collect appends items, and fails for one that cannot be decoded.
func collect[W Identified](all *[]W) func(W, error) error {
	return func(item W, odd error) error {
		*all = append(*all, item)
		return odd
	}
}

// Each lists a collection, page by page, and gives each item to take. If an item cannot be decoded or has no id, it
// comes with an error and with those of its fields that can be. begin is called before the first item, and again if the
// list starts anew. Only if the error is nil, take has got all.
func Each[W Identified](
	ctx context.Context, c *Cloud, op string, of Collection, query url.Values, begin func(), take func(W, error) error,
) error {
	for range restarts {
		begin()
		err := follow(ctx, c, op, of, c.Paged(query), take)
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

// Follow reads a page and all pages after it, as List does, but neither asks for pages nor starts anew. It changes the
// query.
func Follow[W Identified](
	ctx context.Context, c *Cloud, op string, of Collection, query url.Values,
) ([]W, error) {
	var all []W
	if err := follow(ctx, c, op, of, query, collect(&all)); err != nil {
		return nil, err
	}
	return all, nil
}

// follow reads a page and all pages after it. Neutron's link "next" decides whether there are more, because Neutron may
// return fewer per page than requested. The link's address is not used. It changes the query.
func follow[W Identified](
	ctx context.Context, c *Cloud, op string, of Collection, query url.Values, take func(W, error) error,
) error {
	most := c.access.Load().bounds
	seen := map[string]bool{}
	last, bytes := "", int64(0)
	for range most.pages {
		p, err := readPage[W](ctx, c, op, of, query)
		if err != nil {
			return err
		}
		if bytes += p.bytes; bytes > most.list {
			return BadAnswer(op, http.MethodGet, "its pages together are %s", &tooLarge{most.list})
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
		if !p.more || len(p.items) == 0 {
			return nil
		}
		if last == query.Get("marker") {
			return BadAnswer(op, http.MethodGet, "no item of a page has an id")
		}
		query.Set("marker", last)
	}
	return BadAnswer(op, http.MethodGet, "it has more than %d pages, which is the limit", most.pages)
}

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
	more  bool
	bytes int64
}

func readPage[W any](
	ctx context.Context, c *Cloud, op string, of Collection, query url.Values,
) (p page[W], err error) {
	var answer map[string]json.RawMessage
	var bytes int64
	err = c.Do(ctx, Request{
		Op: op, Method: http.MethodGet, Path: of.Many, query: query, Answer: &answer, size: &bytes,
	})
	if err != nil {
		return page[W]{}, err
	}
	p, err = decodePage[W](op, of, answer)
	p.bytes = bytes
	return p, err
}

func decodePage[W any](op string, of Collection, answer map[string]json.RawMessage) (p page[W], err error) {
	if err := decode(op, http.MethodGet, of.key(), answer, &p.items); err != nil {
		if p.items, p.odd = decodeEach[W](op, answer[of.key()]); len(p.odd) == 0 {
			return page[W]{}, err
		}
	}
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

// decodeEach decodes items one by one, of which some cannot be decoded. odd is empty if the text is no list of objects.
func decodeEach[W any](op string, text json.RawMessage) (items []W, odd map[int]error) {
	var raw []map[string]json.RawMessage
	var texts []json.RawMessage
	if json.Unmarshal(text, &raw) != nil || json.Unmarshal(text, &texts) != nil {
		return nil, nil
	}
	items = make([]W, len(texts))
	for at := range texts {
		// The decoder goes on after a field of another type.
		if err := json.Unmarshal(texts[at], &items[at]); err != nil {
			if odd == nil {
				odd = map[int]error{}
			}
			odd[at] = BadAnswer(op, http.MethodGet, "%s", jsonProblem(err))
		}
	}
	return items, odd
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

// decode extracts what an answer has below a key. An answer without it is an error: it is no empty list.
func decode(op, method, key string, answer map[string]json.RawMessage, into any) error {
	raw, ok := answer[key]
	if !ok || raw == nil || string(raw) == "null" {
		return BadAnswer(op, method, "it has no %q", key)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return BadAnswer(op, method, "%s", jsonProblem(err))
	}
	return nil
}

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
