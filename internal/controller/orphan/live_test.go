package orphan

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

const clusterUID = "c1"

var owning = []schema.GroupVersionResource{
	cloudteamv1.SchemeGroupVersion.WithResource("networks"),
	cloudteamv1.SchemeGroupVersion.WithResource("networkports"),
}

// pages serves lists of metadata, page by page, and the namespace kube-system.
type pages struct {
	system types.UID
	// uids are those of each page, by resource.
	uids map[string][][]types.UID
	// before may answer a request.
	before func(w http.ResponseWriter, r *http.Request) bool
	asked  []string
}

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	p.asked = append(p.asked, r.URL.Path+"?"+r.URL.RawQuery)
	if p.before != nil && p.before(w, r) {
		return
	}
	meta := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	if strings.HasSuffix(r.URL.Path, "/namespaces/kube-system") {
		_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadata{
			TypeMeta: meta, ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: p.system},
		})
		return
	}
	resource := strings.TrimPrefix(r.URL.Path, "/apis/"+cloudteamv1.SchemeGroupVersion.String()+"/")
	all := p.uids[resource]
	page, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	meta.Kind = "PartialObjectMetadataList"
	list := metav1.PartialObjectMetadataList{TypeMeta: meta, ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	if page+1 < len(all) {
		list.Continue = strconv.Itoa(page + 1)
	}
	if page < len(all) {
		for _, uid := range all[page] {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "n-" + string(uid), UID: uid},
			})
		}
	}
	_ = json.NewEncoder(w).Encode(list)
}

// read reads what exists.
func (p *pages) read(t *testing.T) (map[string]bool, error) {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	client, err := metadata.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	expect.NoError(t, err)
	return ReadLive(client, clusterUID, owning...)(t.Context())
}

func fleet() *pages {
	return &pages{system: clusterUID, uids: map[string][][]types.UID{
		"networks": {{"a", "b"}, {"c"}, {"d"}}, "networkports": {{"p"}},
	}}
}

func TestLiveIsEveryPageOfBothKinds(t *testing.T) {
	p := fleet()
	got, err := p.read(t)
	expect.NoError(t, err)
	expect.Equal(t, []string{"a", "b", "c", "d", "p"}, slices.Sorted(maps.Keys(got)), "what exists")
	const group = "/apis/cloudteam.ztgame.com/v1/"
	// No resourceVersion: any would let the API server answer from a cache that is behind.
	want := []string{
		"/api/v1/namespaces/kube-system?", group + "networks?limit=16", group + "networks?continue=1&limit=16",
		group + "networks?continue=2&limit=16", group + "networkports?limit=16",
	}
	expect.Equal(t, want, p.asked, "requests")
}

// TestLiveReadsFewObjectsAtOnce: how large an object is, its tenant chooses.
func TestLiveReadsFewObjectsAtOnce(t *testing.T) {
	const (
		objects = 100
		largest = 3 << 19   // bytes; etcd takes no larger object
		memory  = 512 << 20 // bytes; the limit in config/manager
	)
	most := 0
	p := &pages{system: clusterUID}
	p.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/namespaces/") {
			return false
		}
		// As an API server does, it cuts its pages by the limit.
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil || limit == 0 {
			limit = objects
		}
		var uids []types.UID
		for i := range objects {
			uids = append(uids, types.UID(fmt.Sprint("u", i)))
		}
		all := slices.Collect(slices.Chunk(uids, limit))
		p.uids, most = map[string][][]types.UID{"networks": all}, max(most, len(all[0]))
		return false
	}
	got, err := p.read(t)
	if err != nil || len(got) != objects {
		t.Errorf("%d of %d objects, %v", len(got), objects, err)
	}
	if bytes := most * largest; bytes > memory/16 {
		t.Errorf("an answer has %d objects, of %d MiB at most; want a sixteenth of the memory, %d MiB", most, bytes>>20,
			memory/16>>20)
	}
}

func TestLiveOfAClusterWithoutObjectsIsEmpty(t *testing.T) {
	p := &pages{system: clusterUID}
	if got, err := p.read(t); err != nil || len(got) != 0 {
		t.Errorf("%v, %v, want nothing and no error", got, err)
	}
}

func TestLiveThatIsNotCompleteIsAnError(t *testing.T) {
	on := func(part string, do func(http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path+"?"+r.URL.RawQuery, part) {
				return false
			}
			do(w)
			return true
		}
	}
	refuse := func(status int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { http.Error(w, "{}", status) }
	}
	write := func(body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { fmt.Fprint(w, body) }
	}
	for sentence, c := range map[string]struct {
		change func(p *pages)
		says   string
	}{
		"the namespace cannot be read": {
			func(p *pages) { p.before = on("/namespaces/", refuse(http.StatusForbidden)) }, "kube-system"},
		"it is another cluster": {
			func(p *pages) { p.system = "c2" }, "another cluster"},
		"networks are refused": {
			func(p *pages) { p.before = on("/networks?", refuse(http.StatusForbidden)) }, "networks"},
		"a later page is refused": {
			func(p *pages) { p.before = on("continue=2", refuse(http.StatusGatewayTimeout)) }, "networks"},
		"the state that the pages are of is too old": {
			func(p *pages) { p.before = on("continue=1", refuse(http.StatusGone)) }, "networks"},
		"NetworkPorts are served no more": {
			func(p *pages) { p.before = on("/networkports?", refuse(http.StatusNotFound)) }, "networkports"},
		"an answer is empty": {
			func(p *pages) { p.before = on("/networkports?", write("{}")) }, "networkports"},
		"an answer is a list of nothing": {
			func(p *pages) {
				p.before = on("/networkports?",
					write(`{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{},"items":[]}`))
			}, "networkports"},
		"an answer breaks off": {
			func(p *pages) { p.before = on("continue=1", write(`{"apiVersion":"meta.k8s.io/v1","items":[`)) }, "networks"},
		"an object has no UID": {
			func(p *pages) { p.uids["networks"][1][0] = "" }, "UID"},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := fleet()
			c.change(p)
			got, err := p.read(t)
			if err == nil || got != nil {
				t.Fatalf("%v, %v, want an error", got, err)
			}
			expect.ErrorSays(t, err, c.says)
		})
	}
}
