package controller_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// TestALineIsInTheOrderOfAge has objects come, change what they wait for, and go, and compares with a list that is
// sorted each time.
func TestALineIsInTheOrderOfAge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := &controller.Line{}
		events := controller.FollowLine(line, func(p *cloudteamv1.NetworkPort) string { return p.Spec.NetworkName })
		is := map[string]*cloudteamv1.NetworkPort{}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			p := &cloudteamv1.NetworkPort{}
			p.Namespace, p.Name = "team", fmt.Sprint("p", rapid.IntRange(0, 9).Draw(t, "object"))
			if was := is[p.Name]; was != nil && rapid.Bool().Draw(t, "goes") {
				delete(is, p.Name)
				events.OnDelete(cache.DeletedFinalStateUnknown{Key: "team/" + p.Name})
				continue
			}
			p.CreationTimestamp = metav1.Unix(int64(rapid.IntRange(0, 3).Draw(t, "age")), 0)
			p.Spec.NetworkName = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "waits for")
			is[p.Name] = p
			events.OnUpdate(nil, p)
		}
		for _, what := range []string{"a", "b", ""} {
			var want []controller.Waiting
			for _, p := range is {
				if what != "" && p.Spec.NetworkName == what {
					want = append(want, controller.WaitingOf(p))
				}
			}
			slices.SortFunc(want, func(a, b controller.Waiting) int {
				return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.Name.Name, b.Name.Name))
			})
			for most := range len(want) + 2 {
				var names []cache.ObjectName
				for _, w := range want[:min(most, len(want))] {
					names = append(names, w.Name)
				}
				if got := line.Names(what, most); !slices.Equal(got, names) {
					t.Fatalf("the first %d that wait for %q are %v, want %v", most, what, got, names)
				}
			}
			for at, w := range want {
				if got := line.Ahead(w, what); got != at || !line.Has(w.Name) {
					t.Fatalf("%d are ahead of %s, want %d", got, w.Name, at)
				}
			}
		}
		if since := (metav1.Time{Time: time.Now()}); line.Has(cache.NewObjectName("team", "nobody")) ||
			line.Ahead(controller.Waiting{Since: since}, "nothing") != 0 {
			t.Fatal("somebody waits who is not there")
		}
	})
}
