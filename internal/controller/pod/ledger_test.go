package pod

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

var (
	podA = cache.NewObjectName("team", "a")
	podB = cache.NewObjectName("team", "b")
)

// chosen is what the ledger gives a Pod that asks for one port of net, when the cache shows what is given.
func chosen(l *ledger, pod cache.ObjectName, bound, free []string) []string {
	a := l.choose(pod, types.UID(pod.Name), requestsFor([]string{"net"}), portsOf(bound), serving(portsOf(free)), fits)
	return names(a.ports)
}

func TestLedger(t *testing.T) {
	free := []string{"web-net-0", "web-net-1"}
	for name, test := range map[string]func(l *ledger) [][]string{
		"a port that is being bound is no other Pod's, and its Pod's again": func(l *ledger) [][]string {
			return [][]string{
				chosen(l, podA, nil, free), chosen(l, podB, nil, free), chosen(l, podA, nil, free),
				{"web-net-0"}, {"web-net-1"}, {"web-net-0"},
			}
		},
		"one that was bound is so until the cache shows it": func(l *ledger) [][]string {
			chosen(l, podA, nil, free)
			l.wrote(portOf("web-net-0 bound:a version:5"), podA, "a")
			if l.abandon(podA) {
				return nil
			}
			behind := chosen(l, podB, nil, []string{"web-net-0 version:4"})
			held := chosen(l, podA, nil, []string{"web-net-0 version:4", "web-net-1"})
			level := chosen(l, podA, []string{"web-net-0 bound:a version:5"}, []string{"web-net-1"})
			return [][]string{behind, held, level, {""}, {"web-net-0"}, {"web-net-0"}}
		},
		"one that the cache shows in a newer state is as it shows": func(l *ledger) [][]string {
			l.wrote(portOf("web-net-0 bound:a version:5"), podA, "a")
			return [][]string{chosen(l, podB, nil, []string{"web-net-0 version:6"}), {"web-net-0"}}
		},
		"one that was released is nobody's until the cache shows it": func(l *ledger) [][]string {
			l.wrote(portOf("web-net-0 version:7"), cache.ObjectName{}, "")
			behind := chosen(l, podA, []string{"web-net-0 bound:a version:6"}, nil)
			return [][]string{behind, chosen(l, podB, nil, []string{"web-net-0 version:7"}), {""}, {"web-net-0"}}
		},
		"one that was not bound in the end is free again": func(l *ledger) [][]string {
			chosen(l, podA, nil, free)
			if !l.abandon(podA) || l.abandon(podA) {
				return nil
			}
			return [][]string{chosen(l, podB, nil, free), {"web-net-0"}}
		},
		"a Pod of the same name is another": func(l *ledger) [][]string {
			l.wrote(portOf("web-net-0 bound:a version:5"), podA, "earlier")
			return [][]string{chosen(l, podA, nil, []string{"web-net-0 version:4", "web-net-1"}), {"web-net-1"}}
		},
		"what is gone is forgotten": func(l *ledger) [][]string {
			l.wrote(portOf("web-net-0 version:7"), cache.ObjectName{}, "")
			l.forget("web-net-0")
			return [][]string{chosen(l, podA, nil, []string{"web-net-0 version:1"}), {"web-net-0"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := test(&ledger{})
			if len(got) == 0 {
				t.Fatal("abandon does not tell what there was")
			}
			if diff := cmp.Diff(got[len(got)/2:], got[:len(got)/2]); diff != "" {
				t.Errorf("chosen (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLedgerGivesEachPortOnce(t *testing.T) {
	var l ledger
	var free []*cloudteamv1.NetworkPort
	for i := range 50 {
		free = append(free, portOf(fmt.Sprintf("web-net-%d", i)))
	}
	given := make([]string, 50)
	var choosing sync.WaitGroup
	for i := range given {
		choosing.Go(func() {
			pod := cache.NewObjectName("team", fmt.Sprint(i))
			a := l.choose(pod, types.UID(pod.Name), requestsFor([]string{"net"}), nil, serving(free), fits)
			given[i] = names(a.ports)[0]
		})
	}
	choosing.Wait()
	seen := map[string]bool{}
	for i, port := range given {
		if port == "" || seen[port] {
			t.Errorf("Pod %d is given %q", i, port)
		}
		seen[port] = true
	}
}
