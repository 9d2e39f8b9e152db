package managed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// CloudRef names a cloud by where the credentials for it are. The zero value is the process's own cloud.
type CloudRef struct {
	// Namespace and Secret name the Secret.
	Namespace, Secret string
	// Entry is that of the Secret's clouds.yaml; empty for the only one.
	Entry string
}

// CloudOf is the cloud of what a Network declares, in the Network's namespace.
func CloudOf(obj *cloudteamv1.Network) CloudRef {
	if obj.Spec.Cloud == nil {
		return CloudRef{}
	}
	return CloudRef{Namespace: obj.Namespace, Secret: obj.Spec.Cloud.SecretName, Entry: obj.Spec.Cloud.Name}
}

// IsOwn reports whether it is the process's own cloud.
func (c CloudRef) IsOwn() bool { return c == CloudRef{} }

// String is the reference for logs and as the name of credentials.
func (c CloudRef) String() string {
	if c.Entry == "" {
		return c.Namespace + "/" + c.Secret
	}
	return c.Namespace + "/" + c.Secret + ":" + c.Entry
}

// ErrNotYet says that it is not known yet what there is of a cloud. Who is told so is woken when it is (EnqueueIn).
var ErrNotYet = errors.New("the cloud's credentials are not read yet")

// Clouds gives the Inventories of clouds that are not the process's own. It is safe for concurrent use.
type Clouds interface {
	// In gives a cloud's Inventory, at once: the same one each time, for as long as its credentials are of one Secret.
	// removing says that it is to be used for the removal of what is there alone, for which more may do.
	//
	// It gives ErrNotYet where that is not known yet, and a *Waiting where the credentials cannot be used. Whoever got
	// either, or an Inventory that is no more to be used, is woken by EnqueueIn when that changes.
	In(ref CloudRef, removing bool) (Inventory, error)
}

// ReachClouds gives the clouds that objects may name. Without, those that name one are Stalled. It MUST be called
// before Run, if at all.
func (r *Reconciler[T]) ReachClouds(clouds Clouds) { r.clouds = clouds }

// cloudOf is the cloud of an object's resources. Where it cannot be told any more, it is the last one that was.
func (r *Reconciler[T]) cloudOf(obj T) CloudRef {
	if at, known := r.kind.Cloud(obj); known {
		return at.Cloud
	}
	key := cache.MetaObjectToName(obj)
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.indexOf(key, obj.GetUID()); at >= 0 {
		return r.owned[key][at].home.ref
	}
	return CloudRef{}
}

// home is where an object's resources are, or may be, and through what they are seen. The zero value is not known.
type home struct {
	ref CloudRef
	in  Inventory
}

// reach gives the Inventory of the cloud of an object's resources. removing is as with Clouds.In.
func (r *Reconciler[T]) reach(obj T, removing bool) (home, error) {
	ref := r.cloudOf(obj)
	switch {
	case ref.IsOwn():
		return home{ref, r.inventory}, nil
	case r.clouds == nil:
		return home{}, &Waiting{Reason: cloudteamv1.ReasonCredentialsUnusable, Stalled: true, Message: "This controller " +
			"serves no cloud but its own. Remove cloud from the spec."}
	}
	in, err := r.clouds.In(ref, removing)
	if _, waits := errors.AsType[*Waiting](err); waits && ref.Namespace != obj.GetNamespace() {
		// What is wrong with a Secret is for its own namespace to see.
		return home{}, &Waiting{Reason: cloudteamv1.ReasonCredentialsUnusable, Stalled: true, Message: "The credentials " +
			"of its Network cannot be used; the Network's own condition says why. Retries as soon as they change."}
	}
	return home{ref, in}, err
}

// settle notes where the resources of an object are that is remembered. Where that is elsewhere than before, what was
// written through the former Inventory may be missing in the lists of this one: a list that begins now has to show what
// is there.
func (r *Reconciler[T]) settle(key cache.ObjectName, uid types.UID, now home) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.indexOf(key, uid)
	if at < 0 {
		return
	}
	was := &r.owned[key][at].home
	// That of the own cloud is always the same one, and need not be comparable.
	if was.in != nil && (was.ref != now.ref || !now.ref.IsOwn() && was.in != now.in) {
		r.doubts[uid] = time.Now()
	}
	*was = now
}

// EnqueueIn puts every object on the queue whose resources are in a cloud, and those that are gone and have left
// resources there: something changed that concerns all of them.
func (r *Reconciler[T]) EnqueueIn(ref CloudRef) {
	for _, obj := range r.all() {
		if r.cloudOf(obj) == ref {
			r.Enqueue(cache.MetaObjectToName(obj))
		}
	}
}

// CloudsInUse gives the clouds of all objects, and of those that are gone and have left resources.
func (r *Reconciler[T]) CloudsInUse() map[CloudRef]bool {
	refs := map[CloudRef]bool{}
	for _, obj := range r.all() {
		refs[r.cloudOf(obj)] = true
	}
	return refs
}

// all gives the objects of the cache, and those that are remembered; one that is both, twice.
func (r *Reconciler[T]) all() []T {
	var all []T
	for _, found := range r.indexer.List() {
		if obj, ok := found.(T); ok {
			all = append(all, obj)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, memories := range r.owned {
		for _, m := range memories {
			all = append(all, m.obj)
		}
	}
	return all
}

// identify finds out which cloud this is and holds it against the one that the object is pinned to. It returns the
// context for all that is done there, in which nothing is done elsewhere, should the credentials be replaced meanwhile.
// It returns false, with the progress filled in, where nothing may be done.
func (r *Reconciler[T]) identify(ctx context.Context, in Inventory, obj T, p *progress) (context.Context, bool) {
	identity, err := in.Identity(ctx)
	if err != nil {
		*p = p.failed(err)
		return nil, false
	}
	if pinned := r.pinnedTo(obj); pinned != nil && client.Identity(*pinned) != identity {
		*p = p.failed(&mismatch{r.kind.Resource, client.Identity(*pinned), identity})
		return nil, false
	}
	p.identity = &identity
	return client.Within(ctx, identity), true
}

// pinnedTo tells where the object's resources are, or may be: the status says it once they were seen, and until then
// the annotation that came with the finalizer. Where nothing was created yet, it tells where alone they can be; it is
// nil where that is anywhere.
func (r *Reconciler[T]) pinnedTo(obj T) *cloudteamv1.CloudStatus {
	if cloud := r.kind.Status(obj).Cloud; cloud != nil {
		return cloud
	}
	var pinned cloudteamv1.CloudStatus
	if json.Unmarshal([]byte(obj.GetAnnotations()[cloudteamv1.AnnotationCloud]), &pinned) == nil {
		return &pinned
	}
	at, _ := r.kind.Cloud(obj)
	return at.Pinned
}

// unremovable is the progress for an object that is to go and whose cloud cannot be reached, by the error of reach. It
// waits, and how to have it go all the same is said there.
func (r *Reconciler[T]) unremovable(err error) progress {
	if waiting, ok := errors.AsType[*Waiting](err); ok {
		told := *waiting
		told.Message = sentences(waiting.Message,
			fmt.Sprintf("To leave what is in Neutron, remove the finalizer %s.", r.kind.Finalizer))
		err = &told
	}
	return progress{}.failed(err)
}
