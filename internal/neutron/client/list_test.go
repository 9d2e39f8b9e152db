package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, ids(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "c", "d"}, ids(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
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
		if page, _, err := decodePage[listed]("list", networkList, answer); (page == nil) == (err == nil) {
			t.Errorf("got %v and %v", page, err)
		}
	})
}
