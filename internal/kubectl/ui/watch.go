// Package ui serves a page on loopback that shows Networks, what is on them, and what is wrong with them, live. It
// reads with the user's rights and changes nothing. The page draws what package tree gives, as kubectl network tree
// prints it.
package ui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/config/crd"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/tree"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// batch is how long changes are gathered before the page is told, so that a burst is one redraw.
	batch = 50 * time.Millisecond
	// lookAtNeutron is how often the ports in Neutron are listed. Neutron has no watch.
	lookAtNeutron = 30 * time.Second

	byNetwork = "network"
	byUID     = "uid"
	byUser    = "user"
	byPort    = "port"
)

// Entry is a Network on the page.
type Entry struct {
	// Key is the Network's namespace and name.
	Key string `json:"key"`
	// Tree is nil once the Network is gone.
	Tree *tree.Node `json:"tree,omitempty"`

	version int64
	// text is Tree in JSON, to see whether it differs.
	text []byte
}

// View is what a page shows after a change: all entries at first, and then those that changed.
type View struct {
	// All says that Entries are all there are; the page forgets the others.
	All bool `json:"all,omitempty"`
	// Synced says that the cluster has been read.
	Synced  bool    `json:"synced"`
	Entries []Entry `json:"entries,omitempty"`
	// Notes say what could not be read.
	Notes []string `json:"notes,omitempty"`
}

// World follows the Networks of a namespace, or of all, by watches. It is safe for concurrent use.
type World struct {
	cluster   *ask.Cluster
	neutron   tree.Neutron
	namespace string

	networks, ports, floating cache.SharedIndexInformer
	run                       func(cache.SharedIndexInformer)
	wake                      chan struct{}

	mu      sync.Mutex
	pods    map[string]cache.SharedIndexInformer // by namespace; "" is all
	dirty   map[string]bool
	entries map[string]*Entry
	notes   map[string]string
	others  map[string][]tree.Port // by network id
	synced  bool
	version int64
	changed chan struct{}
}

// NewWorld makes a World; Run fills it. neutron may be nil. An empty namespace means all.
func NewWorld(cluster *ask.Cluster, neutron tree.Neutron, namespace string) *World {
	w := &World{cluster: cluster, neutron: neutron, namespace: namespace, wake: make(chan struct{}, 1),
		pods: map[string]cache.SharedIndexInformer{}, dirty: map[string]bool{}, entries: map[string]*Entry{},
		notes: map[string]string{}, changed: make(chan struct{})}
	w.networks = w.informer(&cloudteamv1.Network{}, w.source(kinds.Network, namespace), nil, func(o any) []string {
		n := o.(*cloudteamv1.Network)
		return []string{n.Namespace + "/" + n.Name}
	})
	// Ports of other namespaces may be on a Network.
	w.ports = w.informer(&cloudteamv1.NetworkPort{}, w.source(kinds.NetworkPort, metav1.NamespaceAll), cache.Indexers{
		byNetwork: func(o any) ([]string, error) {
			return []string{o.(*cloudteamv1.NetworkPort).Network().String()}, nil
		},
		byUser: func(o any) ([]string, error) {
			if bound := o.(*cloudteamv1.NetworkPort).Status.BoundTo; bound != nil {
				return []string{string(bound.UID)}, nil
			}
			return nil, nil
		},
	}, func(o any) []string {
		p := o.(*cloudteamv1.NetworkPort)
		if p.Status.BoundTo != nil {
			w.followPods(p.Namespace)
		}
		return []string{p.Network().String()}
	})
	w.floating = w.informer(&cloudteamv1.FloatingIP{}, w.source(kinds.FloatingIP, namespace), cache.Indexers{
		byPort: func(o any) ([]string, error) { return []string{portOf(o.(*cloudteamv1.FloatingIP))}, nil },
	}, func(o any) []string {
		// A port that is not here yet brings its Network itself.
		port, exists, err := w.ports.GetIndexer().GetByKey(portOf(o.(*cloudteamv1.FloatingIP)))
		if err != nil || !exists {
			return nil
		}
		return []string{port.(*cloudteamv1.NetworkPort).Network().String()}
	})
	return w
}

// source is where the objects of a kind are read.
func (w *World) source(name, scope string) source {
	kind, _ := kinds.Of(name)
	return source{
		what: kind.Name + "s", scope: scope, fallback: w.namespace,
		list: func(ctx context.Context, ns string, o metav1.ListOptions) (runtime.Object, error) {
			return kind.In(w.cluster.Networks, ns).List(ctx, o)
		},
		watch: func(ctx context.Context, ns string, o metav1.ListOptions) (watch.Interface, error) {
			return kind.In(w.cluster.Networks, ns).Watch(ctx, o)
		},
	}
}

// portOf is the namespace and name of the NetworkPort that a FloatingIP names.
func portOf(f *cloudteamv1.FloatingIP) string { return f.Namespace + "/" + f.Spec.PortName }

// Run follows the cluster until the context ends.
func (w *World) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	w.mu.Lock()
	w.run = func(informer cache.SharedIndexInformer) { group.Go(func() { informer.RunWithContext(ctx) }) }
	w.mu.Unlock()
	for _, informer := range []cache.SharedIndexInformer{w.networks, w.ports, w.floating} {
		w.run(informer)
		group.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				w.touch() // of a kind without objects nothing else tells
			}
		})
	}
	if w.neutron != nil {
		group.Go(func() { w.followNeutron(ctx) })
	}
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(batch):
		case <-ctx.Done():
			return
		}
		w.rebuild()
	}
}

// Since gives what changed after a version, the version it brings the page to, and a channel that closes at the next
// change. Version 0 is a page that has nothing.
func (w *World) Since(version int64) (View, int64, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	view := View{All: version == 0, Synced: w.synced, Notes: slices.Sorted(maps.Values(w.notes))}
	for _, key := range slices.Sorted(maps.Keys(w.entries)) {
		if e := w.entries[key]; e.version > version && (e.Tree != nil || version > 0) {
			view.Entries = append(view.Entries, *e)
		}
	}
	return view, w.version, w.changed
}

// rebuild makes the entries again of which something has changed.
func (w *World) rebuild() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.read("Networks", w.networks) || !w.read("NetworkPorts", w.ports) || !w.read("FloatingIPs", w.floating) {
		w.publish() // the notes may have changed
		return
	}
	w.synced = true
	for key := range w.dirty {
		was, is := w.entries[key], w.build(key)
		var text []byte
		if is != nil {
			text, _ = json.Marshal(is) // words and numbers can always be written
		}
		if was == nil && is == nil || was != nil && bytes.Equal(was.text, text) {
			continue
		}
		w.entries[key] = &Entry{Key: key, Tree: is, version: w.version + 1, text: text}
	}
	clear(w.dirty)
	w.publish()
}

// read reports whether a kind was read, or cannot be.
func (w *World) read(what string, informer cache.SharedIndexInformer) bool {
	_, failed := w.notes[what]
	return failed || informer.HasSynced()
}

// publish tells the pages that there is something new. The lock is held.
func (w *World) publish() {
	w.version++
	close(w.changed)
	w.changed = make(chan struct{})
}

// build makes the tree of a Network; nil if there is none. The lock is held.
func (w *World) build(key string) *tree.Node {
	stored, exists, err := w.networks.GetIndexer().GetByKey(key)
	if err != nil || !exists {
		return nil
	}
	n := stored.(*cloudteamv1.Network)
	on := found[*cloudteamv1.NetworkPort](w.ports, byNetwork, key)
	return tree.Build(n, on, tree.Known{Pod: w.pod, FloatingIPs: w.leadingTo}, w.others[n.Status.NetworkID])
}

// leadingTo are the FloatingIPs that name a port.
func (w *World) leadingTo(port types.NamespacedName) []*cloudteamv1.FloatingIP {
	return found[*cloudteamv1.FloatingIP](w.floating, byPort, port.String())
}

// found are the objects of an informer that an index has for a key, in the order of their names.
func found[T metav1.Object](in cache.SharedIndexInformer, index, key string) (all []T) {
	objs, _ := in.GetIndexer().ByIndex(index, key) // the index exists
	for _, o := range objs {
		all = append(all, o.(T))
	}
	slices.SortFunc(all, func(a, b T) int {
		return cmp.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return all
}

// pod finds a Pod. The lock is held.
func (w *World) pod(uid types.UID) *corev1.Pod {
	for _, informer := range w.pods {
		if found, err := informer.GetIndexer().ByIndex(byUID, string(uid)); err == nil && len(found) > 0 {
			return found[0].(*corev1.Pod)
		}
	}
	return nil
}

// touch has a Network looked at again.
func (w *World) touch(keys ...string) {
	w.mu.Lock()
	for _, key := range keys {
		w.dirty[key] = true
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // it is awake
	}
}

// followPods watches the Pods of a namespace, from the first port on that is bound to one. A page of all namespaces has
// one watch.
func (w *World) followPods(namespace string) {
	if w.namespace == metav1.NamespaceAll {
		namespace = metav1.NamespaceAll
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods[namespace] != nil {
		return
	}
	what := "Pods"
	if namespace != "" {
		what = "Pods of " + namespace
	}
	api := w.cluster.Kubernetes.CoreV1()
	informer := w.informer(&corev1.Pod{}, source{
		what: what, scope: namespace, fallback: namespace,
		list: func(ctx context.Context, ns string, o metav1.ListOptions) (runtime.Object, error) {
			return api.Pods(ns).List(ctx, o)
		},
		watch: func(ctx context.Context, ns string, o metav1.ListOptions) (watch.Interface, error) {
			return api.Pods(ns).Watch(ctx, o)
		},
	}, cache.Indexers{byUID: func(o any) ([]string, error) {
		return []string{string(o.(*corev1.Pod).UID)}, nil
	}}, func(o any) (keys []string) {
		pod := o.(*corev1.Pod)
		for _, p := range found[*cloudteamv1.NetworkPort](w.ports, byUser, string(pod.UID)) {
			keys = append(keys, p.Network().String())
		}
		return keys
	})
	w.pods[namespace] = informer
	w.run(informer)
}

// slim keeps of an object what the page shows: a cluster may have many Pods.
func slim(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion},
			Spec:       corev1.PodSpec{NodeName: o.Spec.NodeName}, Status: corev1.PodStatus{Phase: o.Status.Phase},
		}, nil
	case metav1.Object:
		o.SetManagedFields(nil)
	}
	return o, nil
}

// followNeutron lists the ports in Neutron now and then.
func (w *World) followNeutron(ctx context.Context) {
	tick := time.NewTicker(lookAtNeutron)
	defer tick.Stop()
	for {
		all, err := w.neutron(ctx, "")
		w.mu.Lock()
		delete(w.notes, "Neutron")
		if err != nil {
			w.notes["Neutron"] = "Neutron does not list the ports: " + err.Error() + ". Servers and others' ports may be old."
		} else {
			w.others = map[string][]tree.Port{}
			for _, p := range all {
				w.others[p.NetworkID] = append(w.others[p.NetworkID], p)
			}
		}
		w.mu.Unlock()
		w.touch(w.networks.GetIndexer().ListKeys()...)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// source is where an informer reads a kind.
type source struct {
	what string
	// scope is the namespace that is asked for; fallback is the one for users who may not read that.
	scope, fallback string
	list            func(context.Context, string, metav1.ListOptions) (runtime.Object, error)
	watch           func(context.Context, string, metav1.ListOptions) (watch.Interface, error)
}

// informer makes an informer. Its reads that fail are notes until one succeeds. keys are the Networks that an object
// concerns.
func (w *World) informer(
	of runtime.Object, s source, indexers cache.Indexers, keys func(any) []string,
) cache.SharedIndexInformer {
	var mu sync.Mutex
	do := func(call func(namespace string) error) error {
		mu.Lock()
		scope := s.scope
		mu.Unlock()
		err := call(scope)
		if apierrors.IsForbidden(err) && scope != s.fallback {
			mu.Lock()
			s.scope, scope = s.fallback, s.fallback
			mu.Unlock()
			w.note(s.what+" elsewhere", "You may not read "+s.what+" of all namespaces. The page has those of "+s.fallback+".")
			err = call(scope)
		}
		w.noteError(s.what, err)
		return err
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (list runtime.Object, err error) {
			err = do(func(namespace string) error { list, err = s.list(ctx, namespace, o); return err })
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (events watch.Interface, err error) {
			err = do(func(namespace string) error { events, err = s.watch(ctx, namespace, o); return err })
			return events, err
		},
	}
	informer := cache.NewSharedIndexInformer(
		cache.ToListWatcherWithWatchListSemantics(lw, w.cluster.Networks), of, 0, indexers)
	touch := func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		w.touch(keys(o)...)
	}
	err := informer.SetTransform(slim)
	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: touch, DeleteFunc: touch, UpdateFunc: func(was, is any) { touch(was); touch(is) }})
	}
	if err != nil {
		panic(err) // it has not run yet
	}
	return informer
}

// noteError notes why a kind cannot be read, or that it can.
func (w *World) noteError(what string, err error) {
	text := ""
	switch {
	case apierrors.IsForbidden(err):
		text = "You may not list and watch " + what + ". They are missing here."
	case ask.NoKind(err):
		text = "The API server does not serve " + what + ": the CRDs are not installed (" + crd.Install + ")."
	case err != nil:
		text = what + " cannot be read, and may be old here: " + err.Error() + ". Retrying."
	}
	w.note(what, text)
}

// note notes something under a key, or takes the note back.
func (w *World) note(key, text string) {
	w.mu.Lock()
	same := w.notes[key] == text
	if w.notes[key] = text; text == "" {
		delete(w.notes, key)
	}
	w.mu.Unlock()
	if !same {
		w.touch()
	}
}
