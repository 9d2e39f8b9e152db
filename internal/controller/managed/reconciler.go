package managed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/fair"
	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Reconciler syncs the objects of one kind. Create it with NewReconciler.
type Reconciler[T Object] struct {
	*controller.Loop

	kind    Kind[T]
	row     kinds.Kind // the kind's
	indexer cache.Indexer
	// inventory is for the process's own cloud; clouds are the other clouds, nil for none.
	inventory Inventory
	clouds    Clouds
	recorder  record.EventRecorder
	expected  controller.Expectations

	// cluster is the UID of the namespace kube-system.
	cluster string
	// defaults are the policies of objects that leave them unset.
	defaults Policies
	// terminating tells whether a namespace is being deleted.
	terminating func(ctx context.Context, namespace string) bool
	// same are the endpoints that lead to one cloud.
	same SameClouds
	// observeEvery is how often observed resources are read.
	observeEvery time.Duration
	// acting is the time since which no other process acts. Only a list that began after it is sure to show what an
	// earlier process created.
	acting time.Time

	mu sync.Mutex
	// owned holds, by key, the objects whose resources may exist. There is usually one. There are more while resources of
	// earlier objects of the name are being removed. A key has no UID, so this is how a deleted object's resources are
	// found.
	owned map[cache.ObjectName][]*memory[T]
	// left has those of owned that are gone, by namespace, the first one first.
	left map[string][]*memory[T]
	// ownedIn are the keys of owned, by namespacesOf.
	ownedIn map[string]sets.Set[cache.ObjectName]
}

const (
	// indexUID is the name of the index from UID to object.
	indexUID = "owned/uid"
	// indexIn is the name of the index by namespacesOf.
	indexIn = "owned/in"
)

// NewReconciler makes a Reconciler, and adds its index and event handlers to the kind's informer. The informer MUST NOT
// run yet. inventory is for the process's own cloud. Nothing runs before Run.
func NewReconciler[T Object](
	kind Kind[T], informer cache.SharedIndexInformer, inventory Inventory, recorder record.EventRecorder, cluster string,
) (*Reconciler[T], error) {
	if kind.Class != nil {
		kind.Class.fill(&kind)
	}
	r := &Reconciler[T]{
		kind:      kind,
		row:       kinds.OfObject(*new(T)),
		indexer:   informer.GetIndexer(),
		inventory: inventory,
		recorder:  recorder,
		cluster:   cluster,
		defaults:  DefaultPolicies,

		observeEvery: DefaultObserveInterval,
		terminating:  func(context.Context, string) bool { return false },

		acting:  time.Now(),
		owned:   map[cache.ObjectName][]*memory[T]{},
		left:    map[string][]*memory[T]{},
		ownedIn: map[string]sets.Set[cache.ObjectName]{},
	}
	metric.Register()
	r.Loop = controller.NewLoop(kind.Controller, r.Sync)
	r.ServeBackends(r.cloudOfKey)

	err := informer.AddIndexers(cache.Indexers{
		indexUID: controller.IndexBy(func(obj T) []string { return []string{string(obj.GetUID())} }),
		indexIn:  controller.IndexBy(r.namespacesOf),
	})
	if err != nil {
		return nil, fmt.Errorf("indexing %ss: %w", r.row.Name, err)
	}
	if kind.Room != nil {
		kind.Room.begin(&r.kind, r.Enqueue)
		// Before the handler that enqueues: a sync then knows what the event says.
		if err := r.Watch(informer, controller.Following(kind.Room.see, kind.Room.forget)); err != nil {
			return nil, err
		}
	}
	if err := r.Watch(informer, r.Handler()); err != nil {
		return nil, err
	}
	return r, nil
}

// Know adds objects to the cache of an informer that does not run. The latest of a name counts.
func (r *Reconciler[T]) Know(objs ...T) error {
	for _, obj := range objs {
		if err := r.indexer.Add(obj); err != nil {
			return err
		}
		if r.kind.Room != nil {
			r.kind.Room.see(obj)
		}
	}
	return nil
}

// ActSince sets since when no other process acts on the objects; the default is the time of NewReconciler. An earlier
// list may miss the last create of a former leader. If called, it MUST be called before Run.
func (r *Reconciler[T]) ActSince(since time.Time) { r.acting = since }

// Moved requeues the object of the given UID, if it is of this kind. The Inventory calls it when the object's resources
// have changed.
func (r *Reconciler[T]) Moved(uid string) {
	for _, obj := range controller.Indexed[T](r.indexer, indexUID, uid) {
		if recorder := inspect.On(); recorder != nil {
			recorder.Record(inspect.Event{Stage: inspect.Inventory, What: "moved", Objects: []inspect.Object{
				inspect.ObjectOf(r.row.Name, obj.GetNamespace(), obj.GetName())}})
		}
		r.Enqueue(cache.MetaObjectToName(obj))
	}
}

// cloudOfKey names the cloud that a key's sync calls: as of the last sync, if there was one. An event may concern
// thousands of keys, so it must cost little. After an edit, one sync counts for the former cloud.
func (r *Reconciler[T]) cloudOfKey(key cache.ObjectName) string {
	if ref, known := r.lastCloudOf(key); known {
		return ref.String()
	}
	if obj, exists := controller.Cached[T](r.indexer, key); exists {
		return r.cloudOf(obj).String()
	}
	if gone := r.gone(key, ""); len(gone) > 0 {
		return r.cloudOf(gone[0]).String()
	}
	return ""
}

func (r *Reconciler[T]) ownerOf(obj T) plan.Owner {
	return plan.Owner{Cluster: r.cluster, Object: string(obj.GetUID())}
}

// home is the cloud of an object's resources, and the Inventory that shows them. The zero value is unknown.
type home struct {
	ref CloudRef
	in  Inventory
}

// reach gives the Inventory of the cloud of an object's resources. For removing, see Clouds.In.
func (r *Reconciler[T]) reach(obj T, removing bool) (home, error) {
	ref := r.cloudOf(obj)
	switch {
	case ref.IsOwn():
		return home{ref, r.inventory}, nil
	case r.clouds == nil:
		return home{}, Waits(controller.Stalled(cloudteamv1.ReasonCredentialsUnavailable,
			"This controller serves no cloud but its own. Remove cloud from the spec."))
	}
	in, err := r.clouds.In(ref, removing)
	if problem, waits := errors.AsType[*Problem](err); waits && ref.Namespace != obj.GetNamespace() {
		// The details of a Secret are only for users of its own namespace.
		message := "The credentials of its Network cannot be used; the Network's own condition says why. Retries as soon " +
			"as they change."
		if r.kind.Resource != plan.KindPort {
			message = "The credentials of its NetworkClass cannot be used. Retries as soon as they change. Ask the " +
				"administrator of the class."
		}
		hidden := Waits(controller.Stalled(cloudteamv1.ReasonCredentialsUnavailable, message))
		hidden.Gone = problem.Gone
		return home{}, hidden
	}
	return home{ref, in}, err
}

// settle records where the resources of a remembered object are. After a change, the new Inventory's lists may miss
// what was written through the former one. Only a list that begins now proves what exists.
func (r *Reconciler[T]) settle(obj T, now home) {
	r.note(obj, func(m *memory[T]) {
		was := m.home
		// The own cloud's Inventory never changes, and need not be comparable.
		if was.in != nil && (was.ref != now.ref || !now.ref.IsOwn() && was.in != now.in) {
			m.doubt = time.Now()
		}
		m.home = now
	})
}

// identify gives the cloud that the credentials are for. It fails if the object is pinned to another one. The returned
// context confines all requests to that cloud, even if the credentials are replaced meanwhile.
func (r *Reconciler[T]) identify(ctx context.Context, in Inventory, obj T) (context.Context, *client.Identity, error) {
	fair.Yield(ctx) // the cloud answers late
	identity, err := in.Identity(ctx)
	if err != nil {
		return ctx, nil, err
	}
	if pinned := r.pinnedTo(obj); pinned != nil {
		if err := r.elsewhere(obj, "the "+string(r.kind.Resource), *pinned, identity); err != nil {
			return ctx, nil, err
		}
	}
	return client.Within(ctx, identity), &identity, nil
}

// claimed reports whether the object has the finalizer.
func (r *Reconciler[T]) claimed(obj T) bool {
	return slices.Contains(obj.GetFinalizers(), r.row.Finalizer)
}

// claim adds the finalizer to the object. The same write records the cloud where its resources are about to be created.
// It also records the fields in the spec that may have to be taken back. If the process ends right after the create,
// the next one knows where to look, even if its credentials are for another project or cloud. The status would need
// another write. For an import no fields are recorded, because nothing is set before the adoption. An import's filter
// is never asked again.
func (r *Reconciler[T]) claim(ctx context.Context, obj T, p progress) (T, error) {
	cloud, err := json.Marshal(cloudteamv1.CloudStatus(*p.identity))
	if err != nil {
		return obj, err
	}
	annotations := map[string]any{cloudteamv1.AnnotationCloud: string(cloud)}
	if p.found != "" {
		annotations[cloudteamv1.AnnotationImportID] = p.found
	}
	if fields := rememberedOrSet(obj, p.declared); len(fields) > 0 && !r.kind.Expected(obj)[0].Imported {
		if annotations[cloudteamv1.AnnotationTakeBack], err = annotationOf(obj, fields); err != nil {
			return obj, err
		}
	}
	return r.patchMetadata(ctx, obj, map[string]any{
		"finalizers":  append(slices.Clone(obj.GetFinalizers()), r.row.Finalizer),
		"annotations": annotations,
	})
}

// recorded reads the cloud that claim recorded for an object; known is false if there is none. Users can write it, so
// it only keeps the object from other clouds: it says nothing about credentials.
func recorded(obj Object) (cloud cloudteamv1.CloudStatus, known bool) {
	known = json.Unmarshal([]byte(obj.GetAnnotations()[cloudteamv1.AnnotationCloud]), &cloud) == nil
	return cloud, known
}

// record renews the record of the cloud, if another endpoint leads there now, and writes what an import has found. It
// is for an object that is claimed, or never will be.
func (r *Reconciler[T]) record(ctx context.Context, obj T, p progress) (T, error) {
	annotations := map[string]any{}
	if was, known := recorded(obj); known && client.Identity(was) != *p.identity {
		cloud, err := json.Marshal(cloudteamv1.CloudStatus(*p.identity))
		if err != nil {
			return obj, err
		}
		annotations[cloudteamv1.AnnotationCloud] = string(cloud)
	}
	if p.found != "" {
		annotations[cloudteamv1.AnnotationImportID] = p.found
	}
	if len(annotations) == 0 {
		return obj, nil
	}
	return r.patchMetadata(ctx, obj, map[string]any{"annotations": annotations})
}

// patchMetadata writes fields of the object's metadata, if the object has not changed since it was read.
func (r *Reconciler[T]) patchMetadata(ctx context.Context, obj T, metadata map[string]any) (T, error) {
	metadata["uid"], metadata["resourceVersion"] = obj.GetUID(), obj.GetResourceVersion()
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return obj, err
	}
	written, err := r.kind.Patch(obj.GetNamespace())(
		ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: controller.FieldManager})
	if err != nil {
		return obj, err
	}
	r.expected.Written(cache.MetaObjectToName(obj), written.GetUID(), written.GetResourceVersion())
	if recorder := inspect.On(); recorder != nil {
		recorder.Record(inspect.Event{Stage: inspect.Status, What: "metadata", Objects: inspect.Of(ctx),
			Version: written.GetResourceVersion()})
	}
	return written, nil
}
