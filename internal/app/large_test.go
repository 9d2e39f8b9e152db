package app

import (
	"encoding/json"
	"fmt"
	"maps"
	gc "runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/scheme"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestACacheKeepsLittleOfTheLargestObject: a new field of the API, or one that is longer, cannot make it more.
func TestACacheKeepsLittleOfTheLargestObject(t *testing.T) {
	for kind, content := range largestOf(t, false) {
		t.Run(kind, func(t *testing.T) {
			obj := kept(t, content, largestMetadata())
			size, part := deepSize(obj), controller.TooLarge(obj.(metav1.Object))
			t.Logf("%d bytes of JSON, of which spec %d: %d bytes are kept, a part of it: %t", len(text(t, content)),
				len(text(t, content["spec"])), size, part)
			if size > controller.MaxKept {
				t.Errorf("a cache keeps %d bytes, want %d at most", size, controller.MaxKept)
			}
			before := obj.DeepCopyObject()
			mustTrim(t, obj)
			expect.Equal(t, before, obj, "a second time changes it")
		})
	}
}

// TestACacheKeepsTheWholeOfWhatPeopleWrite: with as many of everything as the schema admits, but texts of usual length.
func TestACacheKeepsTheWholeOfWhatPeopleWrite(t *testing.T) {
	for kind, content := range largestOf(t, true) {
		// One subnet may have as many entries as all together, which the generator does not know.
		delete(content["spec"].(map[string]any), "additionalSubnets")
		if status := content["status"].(map[string]any); kind == "Network" {
			status["subnets"] = status["subnets"].([]any)[:1]
		}
		obj := kept(t, content, metav1.ObjectMeta{Namespace: "team", Name: kind})
		t.Logf("%s: %d bytes", kind, deepSize(obj))
		if controller.TooLarge(obj.(metav1.Object)) {
			t.Errorf("%s: a cache keeps a part", kind)
		}
	}
}

// kept decodes an object as an informer does, and trims it.
func kept(t *testing.T, content map[string]any, metadata metav1.ObjectMeta) runtime.Object {
	t.Helper()
	content = maps.Clone(content)
	content["metadata"] = metadata
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(text(t, content), nil, nil)
	expect.NoError(t, err)
	mustTrim(t, obj)
	return obj
}

func text(t *testing.T, value any) []byte {
	t.Helper()
	content, err := json.Marshal(value)
	expect.NoError(t, err)
	return content
}

// largestMetadata is what a user can have a cache keep.
func largestMetadata() metav1.ObjectMeta {
	long := strings.Repeat("x", 8<<10)
	of := metav1.ObjectMeta{
		Namespace: strings.Repeat("n", 63), Name: strings.Repeat("n", 253), UID: types.UID(strings.Repeat("u", 36)),
		ResourceVersion: "1234567890", Generation: 3, Labels: map[string]string{},
		Annotations: map[string]string{"mine": long, cloudteamv1.AnnotationFloatingIP: long},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: long[:maxOwner-100], UID: "set", Controller: new(true)},
		},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: long}},
	}
	for _, kind := range trimsOf {
		for key := range kind.annotations {
			of.Annotations[key] = long
		}
	}
	delete(of.Annotations, controller.AnnotationTooLarge)
	for n := range managed.MaxFinalizers {
		of.Finalizers = append(of.Finalizers, fmt.Sprintf("example.com/%02d%s", n, strings.Repeat("x", 18)))
	}
	for n := range maxLabels / 64 {
		of.Labels[fmt.Sprintf("%02d", n)] = strings.Repeat("x", 62)
	}
	return of
}

// TestTheLargestObjectsFitIntoTheMemory: the container's limit is 512 MiB, of which 7,000 of our objects, of whatever
// kinds, may take half, and those of others a quarter. Nightly, TestTenantsCannotFillTheMemory of package e2e shows it with
// processes.
func TestTheLargestObjectsFitIntoTheMemory(t *testing.T) {
	var ours, foreign int
	all := largestOf(t, false)
	for kind, content := range all {
		size := 7000 * deepSize(kept(t, content, largestMetadata()))
		t.Logf("%ss: %d MiB", kind, size>>20)
		ours = max(ours, size)
	}
	for kind, c := range overfullObjects() {
		mustTrim(t, c.obj)
		size := deepSize(c.obj)
		t.Logf("%s: %d bytes", kind, size)
		if _, own := all[kind]; !own {
			foreign += 1000 * size
		}
	}
	t.Logf("%d MiB, and %d of others", ours>>20, foreign>>20)
	if ours > 256<<20 || foreign > 128<<20 {
		t.Errorf("they take %d MiB and %d, want 256 and 128 at most: lower what pkg/apis lets the largest ones have, or have "+
			"their trims keep less", ours>>20, foreign>>20)
	}
}

// TestWhatIsKeptOfAnObjectIsAllThatItTakes: no text that is kept is a part of a longer one in memory.
func TestWhatIsKeptOfAnObjectIsAllThatItTakes(t *testing.T) {
	const count = 100 // many beside what else this process may begin to keep
	for kind, content := range largestOf(t, false) {
		var before, after gc.MemStats
		objects, want := make([]runtime.Object, count), 0
		collect(&before)
		for i := range objects {
			objects[i] = kept(t, content, largestMetadata())
		}
		collect(&after)
		for _, obj := range objects {
			want += deepSize(obj)
		}
		// The allocator rounds sizes up.
		if got := int(after.HeapAlloc) - int(before.HeapAlloc); got > want*3/2 {
			t.Errorf("%d of %s take %d KiB, want the %d KiB that are kept", count, kind, got>>10, want>>10)
		}
	}
}

func collect(stats *gc.MemStats) {
	gc.GC()
	gc.GC()
	gc.ReadMemStats(stats)
}
