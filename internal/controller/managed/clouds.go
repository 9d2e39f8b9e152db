package managed

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// CloudRef identifies a cloud by the location of its credentials. The zero value is the process's own cloud.
type CloudRef struct {
	// Namespace and Secret name the Secret.
	Namespace, Secret string
	// Entry is the entry in the Secret's clouds.yaml; empty if it has only one.
	Entry string
}

// CloudOf gives the cloud of a Network: the one that it declares, with a Secret of its own namespace, or the one of its
// class, with a Secret of the controller's. known is false if its class does not exist and never did.
func CloudOf(obj *cloudteamv1.Network, of *classes.Classes) (at CloudRef, known bool) {
	if obj.Spec.Cloud != nil {
		return CloudRef{Namespace: obj.Namespace, Secret: obj.Spec.Cloud.SecretName, Entry: obj.Spec.Cloud.Name}, true
	}
	made := of.Of(obj)
	if made.Credentials == nil {
		return CloudRef{}, !made.Unknown
	}
	return CloudRef{of.Namespace(), made.Credentials.SecretName, made.Credentials.Name}, true
}

// IsOwn reports whether this is the process's own cloud.
func (c CloudRef) IsOwn() bool { return c == CloudRef{} }

// String identifies the cloud in logs, and names its credentials.
func (c CloudRef) String() string {
	if c.Entry == "" {
		return c.Namespace + "/" + c.Secret
	}
	return c.Namespace + "/" + c.Secret + ":" + c.Entry
}

// credentialsOf gives the cloud's credentials in the form of a status; nil for the process's own.
func credentialsOf(ref CloudRef) *cloudteamv1.CredentialsStatus {
	if ref.IsOwn() {
		return nil
	}
	return &cloudteamv1.CredentialsStatus{Namespace: ref.Namespace, SecretName: ref.Secret, Name: ref.Entry}
}

// TenantOf is the namespace of an object if its own Secret has the object's credentials; empty if they are the
// operator's.
func TenantOf(namespace string, of *cloudteamv1.CredentialsStatus) string {
	if of == nil || of.Namespace != namespace {
		return ""
	}
	return namespace
}

// IsOn reports whether a port that exists is on the network that a Network has now. Another Network of the same name,
// in another cloud or of another class, says nothing about it. A tenant's own cloud can tell any ids and any project.
func IsOn(port *cloudteamv1.NetworkPort, on *cloudteamv1.Network) bool {
	a, b := port.Status.Cloud, on.Status.Cloud
	same := a == nil || b == nil || a.ProjectID == b.ProjectID
	tenant := TenantOf(on.Namespace, on.Status.Credentials)
	return same && TenantOf(on.Namespace, port.Status.Credentials) == tenant && !slices.ContainsFunc(
		port.Status.Addresses,
		func(a cloudteamv1.PortAddress) bool {
			return !slices.ContainsFunc(on.Status.Subnets, func(s cloudteamv1.SubnetStatus) bool { return s.ID == a.SubnetID })
		})
}

// MayUse reports whether ids in the status of an object of a namespace may be used with this cloud's credentials: the
// operator's use none that the namespace's own returned. A tenant's Keystone can name any project and any Neutron.
func (c CloudRef) MayUse(namespace string, told *cloudteamv1.CredentialsStatus) bool {
	return c.Namespace == namespace || TenantOf(namespace, told) == ""
}

// refOf is the inverse of credentialsOf.
func refOf(credentials *cloudteamv1.CredentialsStatus) CloudRef {
	if credentials == nil {
		return CloudRef{}
	}
	return CloudRef{Namespace: credentials.Namespace, Secret: credentials.SecretName, Entry: credentials.Name}
}

// ErrNotYet says that the state of a cloud is still unknown. EnqueueIn requeues the affected objects once it is known.
var ErrNotYet = errors.New("the cloud's credentials are not read yet")

// Clouds gives the Inventories of clouds other than the process's own. It is safe for concurrent use.
type Clouds interface {
	// In gives a cloud's Inventory without blocking. It returns the same Inventory as long as one Secret holds the
	// credentials. removing says that the caller only removes resources; more Inventories may be allowed for that.
	//
	// The error is ErrNotYet if the credentials are not read yet, and a *Problem if they cannot be used. When that
	// changes, or when a returned Inventory MUST NOT be used any more, EnqueueIn requeues the affected objects.
	In(ref CloudRef, removing bool) (Inventory, error)
}

// ReachClouds sets the clouds that objects may name. Without them, objects that name one are Stalled. If called, it
// MUST be called before Run.
func (r *Reconciler[T]) ReachClouds(clouds Clouds) { r.clouds = clouds }

// cloudOf gives the cloud of an object's resources. If the object no longer tells, such as a NetworkPort without its
// Network, it is the last known one, by the memory or by the status. No user can write the status.
func (r *Reconciler[T]) cloudOf(obj T) CloudRef {
	if at, known := r.kind.Cloud(obj); known {
		return at.Cloud
	}
	if m, _ := r.recall(obj); m.home.in != nil {
		return m.home.ref
	}
	return refOf(r.row.Status(obj).Credentials)
}

// EnqueueIn requeues all objects whose resources are in a cloud, after a change that affects all of them. It includes
// deleted objects that left resources there. For a tenant's cloud, it costs nothing more if others have more objects.
func (r *Reconciler[T]) EnqueueIn(ref CloudRef) {
	for _, obj := range r.near(ref) {
		if r.cloudOf(obj) == ref {
			r.Enqueue(cache.MetaObjectToName(obj))
		}
	}
}

// EnqueueNamespace requeues all objects of a namespace in the cache, or all for "", after a change that may affect each
// of them.
func (r *Reconciler[T]) EnqueueNamespace(namespace string) {
	for _, obj := range controller.All[T](r.indexer) {
		if namespace == "" || obj.GetNamespace() == namespace {
			r.Enqueue(cache.MetaObjectToName(obj))
		}
	}
}

// CloudsInUse gives the clouds of all objects, including deleted objects that left resources.
func (r *Reconciler[T]) CloudsInUse() map[CloudRef]bool {
	refs := map[CloudRef]bool{}
	for _, obj := range r.all() {
		refs[r.cloudOf(obj)] = true
	}
	return refs
}

// namespacesOf gives an object's own namespace, and those whose Secrets may lead to its cloud. Which of these Secrets
// does can depend on a class or a Network, which change without an event of the object.
func (r *Reconciler[T]) namespacesOf(obj T) []string {
	in := []string{obj.GetNamespace()}
	if r.kind.Home != nil {
		in = append(in, r.kind.Home(obj))
	}
	if of := r.row.Status(obj).Credentials; of != nil && of.Namespace != r.kind.Operator {
		in = append(in, of.Namespace)
	}
	slices.Sort(in)
	return slices.Compact(in)
}

// near gives the objects of which some may be in a cloud, as all does: those that its Secret can concern.
func (r *Reconciler[T]) near(ref CloudRef) []T {
	if ref.Namespace == "" || ref.Namespace == r.kind.Operator {
		return r.all()
	}
	near := controller.Indexed[T](r.indexer, indexIn, ref.Namespace)
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.ownedIn[ref.Namespace] {
		for _, m := range r.owned[key] {
			near = append(near, m.obj)
		}
	}
	return near
}

// all gives the objects in the cache and the remembered ones. An object that is both is there twice.
func (r *Reconciler[T]) all() []T {
	all := controller.All[T](r.indexer)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, memories := range r.owned {
		for _, m := range memories {
			all = append(all, m.obj)
		}
	}
	return all
}

// elsewhere is the problem of credentials that lead to another cloud than that of what is there, such as "the port";
// nil if they do not.
func (r *Reconciler[T]) elsewhere(obj T, what string, is cloudteamv1.CloudStatus, found client.Identity) error {
	if r.same.same(client.Identity(is), found) {
		return nil
	}
	if ref := r.cloudOf(obj); !ref.IsOwn() && ref.Namespace != obj.GetNamespace() {
		return mismatchElsewhere(r.kind.Resource)
	}
	return mismatch(what, client.Identity(is), found)
}

// toldElsewhere is the problem of a declaration with ids that another cloud told; nil if it has none. Where the
// object's own resources are says nothing about these ids.
func (r *Reconciler[T]) toldElsewhere(obj T, declared Declaration, found client.Identity) error {
	for _, told := range declared.Traits().ToldBy {
		err := r.elsewhere(obj, fmt.Sprintf("what the %s depends on", r.kind.Resource), told, found)
		if err != nil {
			return err
		}
	}
	return nil
}

// pinnedTo gives the only cloud where the object's resources can be. The source is the status once the resources were
// seen, and the annotation written with the finalizer before that. If nothing was created yet, the object's Place may
// still pin it. It is nil if any cloud is possible.
func (r *Reconciler[T]) pinnedTo(obj T) *cloudteamv1.CloudStatus {
	if cloud := r.row.Status(obj).Cloud; cloud != nil {
		return cloud
	}
	if record, known := recorded(obj); known {
		return &record
	}
	at, _ := r.kind.Cloud(obj)
	return at.Pinned
}
