package inspect

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Transform wraps an informer's transform, through which each object goes on its way from the watch to the cache. The
// Reflector and the delta FIFO are client-go's and have no hooks: who called the transform tells what they do.
func (r *Recorder) Transform(next cache.TransformFunc) cache.TransformFunc {
	return func(obj any) (any, error) {
		if object, err := meta.Accessor(obj); err == nil {
			r.arrived(KindOf(obj), object)
		}
		return next(obj)
	}
}

// clientgo is the package of informers.
const clientgo = "k8s.io/client-go/tools/cache."

func (r *Recorder) arrived(kind string, object metav1.Object) {
	stack, what, version := frames(), "", object.GetResourceVersion()
	objects := []Object{ObjectOf(kind, object.GetNamespace(), object.GetName())}
	record := func(stage Stage, f runtime.Frame) {
		r.Record(Event{Stage: stage, What: what, Objects: objects, Version: version, Code: codeOf(f)})
	}
	var fifo runtime.Frame
	for _, f := range stack {
		name, is := strings.CutPrefix(f.Function, clientgo)
		if !is {
			continue
		}
		switch name {
		case "(*RealFIFO).Add", "(*cache).Add":
			what = "ADDED"
		case "(*RealFIFO).Update", "(*cache).Update":
			what = "MODIFIED"
		case "(*RealFIFO).Delete":
			what = "DELETED"
		case "(*RealFIFO).Replace":
			what = "replaced"
		case "handleAnyWatch":
			record(Reflector, f)
		}
		if strings.HasPrefix(name, "(*RealFIFO).") {
			fifo = f
		}
	}
	if fifo.Function != "" {
		record(DeltaFIFO, fifo)
	}
}

// Follow records what an informer's Indexer stores, and that its watch expired. An index sees each object that comes
// and goes. A second call for one informer does nothing.
func (r *Recorder) Follow(informer cache.SharedInformer) {
	// It fails if the informer runs: then a former call has set it.
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			r.expired(reflector)
		}
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
	})
	indexed, ok := informer.(interface{ AddIndexers(cache.Indexers) error })
	if !ok {
		return
	}
	// It fails if the informer has this index.
	_ = indexed.AddIndexers(cache.Indexers{"inspect": func(obj any) ([]string, error) {
		if object, err := meta.Accessor(obj); err == nil {
			r.indexed(KindOf(obj), object)
		}
		return nil, nil
	}})
}

// expired records that a Reflector has to list again. It concerns all that the Indexer holds of the kind.
func (r *Recorder) expired(reflector *cache.Reflector) {
	description := reflector.TypeDescription() // as in *v1.Network
	kind := strings.ToLower(description[strings.LastIndex(description, ".")+1:]) + "/"
	e := Event{Stage: Reflector, What: "expired", Version: reflector.LastSyncResourceVersion(), Code: caller(isClientgo)}
	r.mu.Lock()
	for object := range r.held {
		if strings.HasPrefix(string(object), kind) {
			e.Objects = append(e.Objects, object)
		}
	}
	r.mu.Unlock()
	slices.Sort(e.Objects)
	r.Record(e)
}

// Missed records what client-go did before a handler got a tombstone. state is the last one known. Of each object, the
// first call records.
func (r *Recorder) Missed(state any) {
	object, err := meta.Accessor(state)
	if err != nil {
		return // nothing is known of it
	}
	of := ObjectOf(KindOf(state), object.GetNamespace(), object.GetName())
	r.mu.Lock()
	version, was := r.held[of]
	delete(r.held, of)
	e := Event{Objects: []Object{of}, Version: version, Code: r.replaced}
	r.mu.Unlock()
	if !was {
		return
	}
	e.Stage, e.What = DeltaFIFO, "tombstone"
	r.Record(e)
	e.Stage, e.What, e.Why = Indexer, "removed", "missed"
	r.Record(e)
}

func isClientgo(function string) bool { return strings.HasPrefix(function, clientgo) }

func (r *Recorder) indexed(kind string, object metav1.Object) {
	of, version := ObjectOf(kind, object.GetNamespace(), object.GetName()), object.GetResourceVersion()
	deleted := false
	code := caller(func(function string) bool {
		name, is := strings.CutPrefix(function, clientgo)
		deleted = deleted || is && strings.HasPrefix(name, "(*threadSafeMap).Delete")
		return is && strings.HasPrefix(name, "process")
	})
	r.mu.Lock()
	if code.Func == "processReplacedAllInfo" {
		r.replaced = code
	}
	held, was := r.held[of]
	if deleted {
		delete(r.held, of)
	} else {
		r.held[of] = version
	}
	r.mu.Unlock()
	e := Event{Stage: Indexer, What: "stored", Objects: []Object{of}, Version: version, Code: code}
	switch {
	case deleted && was:
		e.What = "removed"
	case deleted, was && held == version:
		return // an update asks for the indexes of the old state, too
	case was:
		e.Why, e.Facts = "newer", []any{held}
	}
	r.Record(e)
}

// KindOf is the kind of an object of a typed informer, also in a tombstone.
func KindOf(obj any) string {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	name := fmt.Sprintf("%T", obj)
	return name[strings.LastIndex(name, ".")+1:]
}
