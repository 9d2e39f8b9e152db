package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// listed is what is read of a network that is listed.
type listed struct {
	ID string `json:"id"`
}

func (l listed) Key() string { return l.ID }

// ids are those of networks.
func ids(networks []listed) []string {
	var all []string
	for _, l := range networks {
		all = append(all, l.ID)
	}
	return all
}

var networkList = Collection{One: "network", Many: "networks"}

func listNetworks(ctx context.Context, c *Cloud) ([]listed, error) {
	return List[listed](ctx, c, "list networks", networkList, url.Values{})
}

func TestListFollowsTheServersPages(t *testing.T) {
	const next = `, "networks_links": [{"rel": "next", "href": "http://elsewhere.invalid/"}]`
	for name, test := range map[string]struct {
		// pages are the answers by marker.
		pages map[string]string
		want  []string
	}{
		"one page": {
			pages: map[string]string{"": `{"networks": [{"id": "a"}, {"id": "b"}]}`}, want: []string{"a", "b"},
		},
		"none": {pages: map[string]string{"": `{"networks": []}`}},
		"fewer than were asked for and more to come": {
			pages: map[string]string{
				"":  `{"networks": [{"id": "a"}]` + next + `}`,
				"a": `{"networks": [{"id": "b"}]` + next + `}`,
				"b": `{"networks": [{"id": "c"}]}`,
			},
			want: []string{"a", "b", "c"},
		},
		"an empty page at the end": {
			pages: map[string]string{"": `{"networks": [{"id": "a"}]` + next + `}`, "a": `{"networks": []}`},
			want:  []string{"a"},
		},
		"an empty page that says next": {
			pages: map[string]string{"": `{"networks": [{"id": "a"}]` + next + `}`, "a": `{"networks": []` + next + `}`},
			want:  []string{"a"},
		},
		"links to the page before alone": {
			pages: map[string]string{"": `{"networks": [{"id": "a"}], "networks_links": [{"rel": "previous"}]}`},
			want:  []string{"a"},
		},
		"more than were asked for": {
			pages: map[string]string{"": `{"networks": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}`},
			want:  []string{"a", "b", "c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) {
				page, ok := test.pages[r.URL.Query().Get("marker")]
				if !ok {
					t.Errorf("unexpected marker in %s", r.URL)
				}
				answer(w, http.StatusOK, page)
			})
			got, err := listNetworks(t.Context(), f.cloud(Options{PageSize: 2}))
			expect.NoError(t, err)
			expect.Equal(t, test.want, ids(got), "ids")
		})
	}
}

// Neutron's time for one resource differs. A page takes about a second.
func TestPagesThatTakeLongBecomeSmaller(t *testing.T) {
	const most = 500
	for name, test := range map[string]struct {
		each time.Duration
		want []int // of two lists of 2,000
	}{
		"all are quick": {time.Millisecond / 10, []int{101, 202, 404, 500, 500, 500, 500, 500, 500, 500}},
		"all are slow": {20 * time.Millisecond, slices.Concat(
			[]int{101}, slices.Repeat([]int{50}, 39), slices.Repeat([]int{50}, 40))},
		"none is served in time": {time.Second, slices.Concat(
			[]int{101}, slices.Repeat([]int{50}, 39), slices.Repeat([]int{50}, 40))},
		"it is right": {5 * time.Millisecond, slices.Repeat([]int{101}, 40)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []int
				_, c := inBubble(t, func(w http.ResponseWriter, r *http.Request) {
					limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
					after, _ := strconv.Atoi(r.URL.Query().Get("marker"))
					asked = append(asked, limit)
					items, more := []string{}, ""
					for id := after + 1; id <= min(after+limit, 2000); id++ {
						items = append(items, fmt.Sprintf(`{"id": "%d"}`, id))
					}
					if after+limit < 2000 {
						more = `, "networks_links": [{"rel": "next"}]`
					}
					time.Sleep(time.Duration(len(items)) * test.each) //nolint:forbidigo // the server's, in virtual time
					answer(w, http.StatusOK, `{"networks": [`+strings.Join(items, ",")+`]`+more+`}`)
				}, Options{PageSize: most, Timeout: time.Hour})
				for range 2 {
					got, err := listNetworks(t.Context(), c)
					if err != nil || len(got) != 2000 {
						t.Fatalf("%d of 2,000, %v", len(got), err)
					}
				}
				expect.Equal(t, test.want, asked, "limits")
			})
		})
	}
}

// A proxy in front of Neutron, or this client, gives up a page that takes long.
func TestAPageThatFailsByItsLengthIsSmallerNextTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		_, c := inBubble(t, func(w http.ResponseWriter, r *http.Request) {
			limit := r.URL.Query().Get("limit")
			if asked = append(asked, limit); limit == "101" {
				time.Sleep(time.Minute) //nolint:forbidigo // the proxy's, in virtual time
				answer(w, http.StatusGatewayTimeout, "")
				return
			}
			answer(w, http.StatusOK, `{"networks": []}`)
		}, Options{Timeout: time.Hour})
		if _, err := listNetworks(t.Context(), c); err == nil {
			t.Error("the first list succeeded")
		}
		_, err := listNetworks(t.Context(), c)
		expect.NoError(t, err)
		expect.Equal(t, []string{"101", "50"}, asked, "limits")
	})
}

func TestPagesThatBecomeQuickGrow(t *testing.T) {
	var p pageSizes
	for _, page := range []struct {
		limit, has int
		took       time.Duration
		want       int
	}{
		{101, 101, 3 * time.Second, 50},
		{50, 50, 3 * time.Second, 50},
		{50, 50, time.Second, 50},
		{50, 50, time.Millisecond, 100},
		{400, 400, time.Millisecond, 500},
		{500, 20, time.Millisecond, 500},
		{101, 20, time.Millisecond, 101}, // the last page of a list
		{500, 480, 11 * time.Second, 240},
		{10, 10, time.Minute, 10}, // no list has larger ones
	} {
		got := p.after("ports", page.limit, page.has, 500, page.took)
		if got != page.want || p.limit("ports", 500) != page.want {
			t.Errorf("after %+v: %d", page, got)
		}
	}
	expect.Equal(t, 101, p.limit("networks", 500), "of another kind")
	expect.Equal(t, 10, p.limit("networks", 10), "with small pages")
}

func TestAnIncompleteListIsAnError(t *testing.T) {
	const next = `, "networks_links": [{"rel": "next"}]`
	for name, page := range map[string]string{
		"no body":                        "",
		"an empty object":                "{}",
		"null":                           "null",
		"a list":                         "[]",
		"another collection":             `{"subnets": []}`,
		"a collection that is null":      `{"networks": null}`,
		"a collection that is an object": `{"networks": {}}`,
		"items of another type":          `{"networks": ["` + canaryBody + `"]}`,
		"a field of another type":        `{"networks": [{"id": {"x": "` + canaryBody + `"}}]}`,
		"HTML":                           "<html>" + canaryBody + "</html>",
		"an answer that breaks off":      `{"networks": [{"id": "a"}, {"id":`,
		"two documents":                  `{"networks": []}{"networks": []}`,
		"links of another type":          `{"networks": [{"id": "a"}], "networks_links": {"rel": "next"}}`,
		"one page for ever":              `{"networks": [{"id": "a"}]` + next + `}`,
		"an id twice":                    `{"networks": [{"id": "a"}, {"id": "a"}]}`,
		"an item that is null":           `{"networks": [null]}`,
		"an item without an id":          `{"networks": [{"name": "x"}]}`,
		"an id that does not print":      `{"networks": [{"id": "a\u001b[31m\n"}]` + next + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				answer(w, http.StatusOK, page)
			})
			got, err := listNetworks(t.Context(), f.cloud(Options{}))
			if err == nil || got != nil {
				t.Fatalf("it passed for a list of %d", len(got))
			}
			checkNoSecrets(t, err)
			if got := outcomeOf(t, err); got.Kind != Transient || got.MaybeDone {
				t.Errorf("it is %+v", got)
			}
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("it does not print: %q", err)
			}
			if calls.Load() > 2 {
				t.Errorf("%d calls", calls.Load())
			}
		})
	}
}

func TestListThatFailsOnALaterPageIsAnError(t *testing.T) {
	f := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("marker") != "" {
			answer(w, http.StatusInternalServerError, "")
			return
		}
		answer(w, http.StatusOK, `{"networks": [{"id": "a"}], "networks_links": [{"rel": "next"}]}`)
	})
	got, err := listNetworks(t.Context(), f.cloud(Options{}))
	if err == nil || got != nil {
		t.Errorf("got %v and %v", got, err)
	}
}

func TestListRestartsWhenItsMarkerIsDeleted(t *testing.T) {
	deleted := false
	f := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) {
		switch marker := r.URL.Query().Get("marker"); {
		case marker == "b": // somebody deletes it between the two pages
			deleted = true
			refuse(w, http.StatusNotFound, "NetworkNotFound", "Network b could not be found.")
		case marker == "" && !deleted:
			answer(w, http.StatusOK, `{"networks": [{"id": "a"}, {"id": "b"}], "networks_links": [{"rel": "next"}]}`)
		case marker == "":
			answer(w, http.StatusOK, `{"networks": [{"id": "a"}, {"id": "c"}], "networks_links": [{"rel": "next"}]}`)
		default:
			answer(w, http.StatusOK, `{"networks": [{"id": "d"}]}`)
		}
	})
	got, err := listNetworks(t.Context(), f.cloud(Options{}))
	expect.NoError(t, err)
	expect.Equal(t, []string{"a", "c", "d"}, ids(got), "ids")
}

func TestListWhoseMarkersKeepVanishingEndsAsAnOutage(t *testing.T) {
	f := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("marker") != "" {
			refuse(w, http.StatusNotFound, "NetworkNotFound", "Network a could not be found.")
			return
		}
		answer(w, http.StatusOK, `{"networks": [{"id": "a"}], "networks_links": [{"rel": "next"}]}`)
	})
	_, err := listNetworks(t.Context(), f.cloud(Options{}))
	if err == nil || KindOf(err) != Transient {
		t.Errorf("got %v, %v", KindOf(err), err)
	}
}

func FuzzAnswersToLists(f *testing.F) {
	f.Add([]byte(`{"networks": [{"id": "a"}], "networks_links": [{"rel": "next"}]}`))
	f.Add([]byte(`{"networks": {}, "networks_links": 7}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var answer map[string]json.RawMessage
		if json.Unmarshal(text, &answer) != nil {
			return
		}
		if page, err := decodePage[listed]("list", networkList, answer, ownBounds.answer); (page.items == nil) == (err == nil) {
			t.Errorf("got %v and %v", page, err)
		}
	})
}

// named is a network whose name may be odd.
type named struct {
	listed
	Name string `json:"name"`
}

func TestAnItemThatCannotBeDecodedIsOneItem(t *testing.T) {
	f := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("marker") == "b" {
			answer(w, http.StatusOK, `{"networks": [{"id": "c", "name": "c"}]}`)
			return
		}
		answer(w, http.StatusOK, `{"networks": [{"id": "a", "name": 7}, {"id": "b", "name": "b"}, {"id": {}, "name": "d"}],
			"networks_links": [{"rel": "next", "href": "http://elsewhere.invalid/"}]}`)
	})
	var good, odd []string
	err := Each(t.Context(), f.cloud(Options{}), "list networks", networkList, url.Values{}, func() {},
		func(n named, err error) error {
			if err != nil {
				odd = append(odd, n.ID+n.Name+": "+err.Error())
			} else {
				good = append(good, n.ID+n.Name)
			}
			return nil
		})
	expect.NoError(t, err)
	expect.Equal(t, []string{"bb", "cc"}, good, "good items")
	want := []string{
		"a: list networks: unusable answer: field name is a number",
		"d: list networks: unusable answer: field id is a object",
	}
	if len(odd) != 2 || !strings.HasPrefix(odd[0], want[0]) || !strings.HasPrefix(odd[1], "d: list networks: unusable answer: ") {
		t.Errorf("got %q, want %q", odd, want)
	}
}

// flood is a Neutron that has a next page for each page. Its items have so many bytes.
func flood(bytes int, calls *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, fmt.Sprintf(`{"networks": [{"id": "n%d", "name": %q}],
			"networks_links": [{"rel": "next", "href": "http://elsewhere.invalid/"}]}`,
			calls.Add(1), strings.Repeat("x", bytes)))
	}
}

func TestAListIsBounded(t *testing.T) {
	for sentence, test := range map[string]struct {
		bytes  int
		bounds bounds
		calls  int64
		want   string
	}{
		"in pages":                  {10, bounds{1 << 20, 1 << 20, 7}, 7, "more than 7 pages"},
		"in bytes of all its pages": {400 << 10, bounds{1 << 20, 1 << 20, 100}, 3, "pages together are larger than the limit of 1 MiB"},
		"in bytes of a single page": {2 << 20, bounds{1 << 20, 4 << 20, 100}, 1, "it is larger than the limit of 1 MiB"},
	} {
		t.Run(sentence, func(t *testing.T) {
			var calls atomic.Int64
			f := newFakeCloud(t, flood(test.bytes, &calls))
			c := f.cloud(Options{})
			with := c.access.Load()
			with.bounds = test.bounds
			limited := with.transport.(bounded)
			limited.bytes = test.bounds.answer
			with.transport = limited
			_, err := listNetworks(t.Context(), c)
			if KindOf(err) != Transient || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			expect.Equal(t, test.calls, calls.Load(), "calls")
		})
	}
}

// TestSmallValuesCountWhatTheyTake shows answers of few bytes that take many times their size when they are decoded.
func TestSmallValuesCountWhatTheyTake(t *testing.T) {
	const megabyte = 1 << 20
	repeated := func(item string) string { return strings.Repeat(item+",", megabyte/(len(item)+1)) + item }
	for sentence, test := range map[string]struct{ answer, want string }{
		"empty items":             {`{"networks": [` + repeated(`{}`) + `]}`, "larger than the limit of 2 MiB"},
		"items that are null":     {`{"networks": [` + repeated(`null`) + `]}`, "larger than the limit of 2 MiB"},
		"values of one item":      {`{"networks": [{"id": "a", "x": [` + repeated(`0`) + `]}]}`, "its values are larger"},
		"objects of one item":     {`{"networks": [{"id": "a", "x": [` + repeated(`{}`) + `]}]}`, "its values are larger"},
		"keys beside the list":    {`{` + repeated(`"a":0`) + `, "networks": []}`, "its values are larger"},
		"items with little in it": {`{"networks": [` + repeated(`{"id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`) + `]}`, "its items are larger"},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, test.answer) })
			c := f.cloud(Options{})
			c.access.Load().bounds.answer = 2 * megabyte
			_, err := listNetworks(t.Context(), c)
			if KindOf(err) != Transient || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestTenantsShareTheMemoryOfLists has clouds of two tenants. A list is held until the next one, or the cloud's end.
func TestTenantsShareTheMemoryOfLists(t *testing.T) {
	var size atomic.Int64
	f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, fmt.Sprintf(`{"networks": [{"id": "a", "name": %q}]}`, strings.Repeat("x", int(size.Load()))))
	})
	memory := NewMemory(10<<10, 6<<10)
	memory.reserve = 1 << 9
	of := func(tenant string) *Cloud { return f.cloud(Options{Memory: memory, Tenant: tenant}) }
	list := func(c *Cloud, op string, bytes int64) error {
		size.Store(bytes)
		return Each(t.Context(), c, op, networkList, url.Values{}, func() {}, func(listed, error) error { return nil })
	}
	a, further, b := of("a"), of("a"), of("b")
	for n, step := range []struct {
		c     *Cloud
		op    string
		bytes int64
		want  string
	}{
		{a, "list networks", 4 << 10, ""},
		{a, "list networks", 1 << 10, ""}, // beside the last one, which it then replaces
		{a, "list ports", 3 << 10, ""},
		{further, "list networks", 3 << 10, "this namespace's clouds together are larger"},
		{b, "list networks", 5 << 10, ""},
		{further, "list networks", 1 << 10, "all namespaces' clouds together are larger"},
		{of("c"), "list networks", 100, ""}, // its reserve
	} {
		err := list(step.c, step.op, step.bytes)
		if step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
			t.Errorf("list %d: got %v, want %q", n, err, step.want)
		}
	}
	b.Close()
	if err := list(further, "list networks", 1<<10); err != nil {
		t.Errorf("after another cloud's end: %v", err)
	}
	if err := list(b, "list networks", 1<<10); err != nil {
		t.Errorf("a late list: %v", err)
	}
	for _, c := range []*Cloud{a, further} {
		c.Close()
	}
	if memory.used != memory.of["c"] || len(memory.of) != 1 {
		t.Errorf("%d bytes are held, and of tenants %v", memory.used, memory.of)
	}
}

func TestCloudsOfUsersHaveTighterBounds(t *testing.T) {
	f := newFakeCloud(t, noContent)
	if got := confinedTo(t, f.URL+"/v3", f.URL).access.Load(); got.bounds != confinedBounds ||
		got.transport.(bounded).bytes != confinedBounds.answer {
		t.Errorf("a user's cloud has %+v", got.bounds)
	}
	if got := f.cloud(Options{}).access.Load(); got.bounds != ownBounds || got.transport.(bounded).bytes != ownBounds.answer {
		t.Errorf("the operator's cloud has %+v", got.bounds)
	}
}

// A tenant's clouds may answer slowly, and many of them at once: what has come of an answer takes memory of the tenant.
func TestAnswersThatComeTakeMemory(t *testing.T) {
	const large = 1 << 20
	memory := NewMemory(3*large, 2*large)
	coming := func(tenant string) *boundedBody {
		return &boundedBody{
			ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", large))), left: 8 * large, limit: 8 * large,
			of: &lists{memory: memory, tenant: tenant},
		}
	}
	a, b, c, other := coming("a"), coming("a"), coming("a"), coming("b")
	for _, body := range []*boundedBody{a, b} {
		_, err := io.Copy(io.Discard, body)
		expect.NoError(t, err)
	}
	_, err := io.Copy(io.Discard, c)
	expect.Contains(t, connectionReason(err), "Use fewer clouds", "a third answer of the tenant")
	_, err = io.Copy(io.Discard, other)
	expect.NoError(t, err)
	for _, body := range []*boundedBody{a, b, c, other} {
		expect.NoError(t, body.Close())
		expect.NoError(t, body.Close())
	}
	if memory.used != 0 || len(memory.of) != 0 {
		t.Errorf("%d bytes are taken when all are closed: %v", memory.used, memory.of)
	}
	small := coming("a")
	_, err = io.CopyN(io.Discard, small, answerStep)
	expect.NoError(t, err)
	expect.Equal(t, int64(0), small.taken, "what a small answer takes")
}
