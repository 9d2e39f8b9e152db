// Package ask reads a cluster for a question of a user, with the rights of that user.
package ask

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"cloudteam.ztgame.com/network-controller/config/crd"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
)

// Cluster is what the answers are read from, with the rights of the user. It is for one question.
type Cluster struct {
	Kubernetes kubernetes.Interface
	Networks   versioned.Interface

	// NewNamespaces are the labels of those that a file of the user's creates, by their names: its objects are in them.
	NewNamespaces map[string]labels.Set
	// May reports whether the user may do something; nil if nobody can tell.
	May func(context.Context, authorizationv1.ResourceAttributes) bool

	// Notes say what could not be read.
	Notes []string
}

// ReviewedBy returns Cluster.May for a user's client. If the API server does not say, the user may.
func ReviewedBy(kube kubernetes.Interface) func(context.Context, authorizationv1.ResourceAttributes) bool {
	return func(ctx context.Context, does authorizationv1.ResourceAttributes) bool {
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &does},
		}
		answer, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err != nil || answer.Status.Allowed
	}
}

// Lacks returns the rights in a namespace that the user needs and does not have, as "create pods/exec". If the API
// server does not say, the user has them.
func Lacks(
	ctx context.Context, kube kubernetes.Interface, namespace string, needs ...authorizationv1.ResourceAttributes,
) (lacks []string) {
	may := ReviewedBy(kube)
	for _, does := range needs {
		if does.Namespace = namespace; !may(ctx, does) {
			lacks = append(lacks, strings.TrimSuffix(does.Verb+" "+does.Resource+"/"+does.Subresource, "/"))
		}
	}
	return lacks
}

// Object names an object of Kubernetes.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// New names an object.
func New(kind, namespace, name string) Object {
	return Object{Kind: kind, Namespace: namespace, Name: name}
}

// Of names an object of one of the kinds of the table.
func Of(obj kinds.Object) Object {
	return New(kinds.OfObject(obj).Name, obj.GetNamespace(), obj.GetName())
}

func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Presence is what a read reports about an object.
type Presence int

// There, Absent and Hidden: the object exists; it does not; the user may not read it, or nobody answers.
const (
	There Presence = iota
	Absent
	Hidden
)

// Get gives an object by the Get of a client. What cannot be read is noted and not fatal: the rest may be enough.
func Get[T any](
	ctx context.Context, c *Cluster, of Object, get func(context.Context, string, metav1.GetOptions) (T, error),
) (T, Presence) {
	found, err := get(ctx, of.Name, metav1.GetOptions{})
	return read(c, of, found, err)
}

// List gives objects by the List of a client. of says which, for the note if they cannot be read.
func List[T any](
	ctx context.Context, c *Cluster, of Object, list func(context.Context, metav1.ListOptions) (T, error),
	options metav1.ListOptions,
) (T, Presence) {
	found, err := list(ctx, options)
	return read(c, of, found, err)
}

func read[T any](c *Cluster, of Object, found T, err error) (T, Presence) {
	switch {
	case err == nil:
		return found, There
	case NoKind(err):
		c.Note("The API server does not serve %ss: the CRDs are not installed (%s).", strings.TrimSuffix(of.Kind, "s"),
			crd.Install)
		return found, Absent
	case apierrors.IsNotFound(err):
		return found, Absent
	case apierrors.IsForbidden(err):
		c.Note(forbidden+"%s. What it says is missing here.", of)
	default:
		c.Note("%s cannot be read: %v.", of, err)
	}
	return found, Hidden
}

// Objects gives the objects of a kind that are in a namespace, or all for "". What cannot be read is noted, as by Get.
func Objects(ctx context.Context, c *Cluster, kind kinds.Kind, namespace string) (objs []kinds.Object, is Presence) {
	objs, err := list(ctx, c, kind, namespace)
	return read(c, New(kind.Name+"s", "", "of "+cmp.Or(namespace, "all namespaces")), objs, err)
}

// Visible gives the objects of a kind, of the type T, that the user may see: of all namespaces, or else of one.
func Visible[T kinds.Object](ctx context.Context, c *Cluster, kind, own string) []T {
	of, _ := kinds.Of(kind)
	for _, in := range slices.Compact([]string{metav1.NamespaceAll, own}) {
		if objs, is := Objects(ctx, c, of, in); is == There {
			return Known[T](objs)
		}
	}
	return nil
}

// Everywhere gives the objects of some kinds in all namespaces, or an error if one of them may be missing. Without
// names, they are those of all kinds of the table.
func Everywhere(ctx context.Context, c *Cluster, names ...string) (all []kinds.Object, err error) {
	for _, kind := range kinds.All {
		if len(names) > 0 && !slices.Contains(names, kind.Name) {
			continue
		}
		objs, err := list(ctx, c, kind, metav1.NamespaceAll)
		if err != nil {
			return nil, fmt.Errorf("reading the %ss of all namespaces: %w", kind.Name, err)
		}
		all = append(all, objs...)
	}
	return all, nil
}

func list(ctx context.Context, c *Cluster, kind kinds.Kind, namespace string) (objs []kinds.Object, err error) {
	found, err := kind.In(c.Networks, namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	err = meta.EachListItem(found, func(obj runtime.Object) error {
		objs = append(objs, obj.(kinds.Object))
		return nil
	})
	return objs, err
}

// Seen says when an Event last happened, and how often it did.
func Seen(e corev1.Event) (last metav1.Time, count int32) {
	last, count = e.LastTimestamp, max(1, e.Count)
	if e.Series != nil {
		last, count = metav1.NewTime(e.Series.LastObservedTime.Time), max(count, e.Series.Count)
	}
	if last.IsZero() {
		last = metav1.NewTime(e.EventTime.Time)
	}
	if last.IsZero() {
		last = e.CreationTimestamp
	}
	return last, count
}

// Known are those of some objects that are of a type.
func Known[T kinds.Object](objs []kinds.Object) (all []T) {
	for _, obj := range objs {
		if typed, ok := obj.(T); ok {
			all = append(all, typed)
		}
	}
	return all
}

// forbidden begins the notes about what the user may not read.
const forbidden = "You may not read "

// IsForbidden reports whether a note says that the user may not read something.
func IsForbidden(note string) bool { return strings.HasPrefix(note, forbidden) }

// NoKind reports whether the API server does not know the kind at all. Then its answer is not a Status.
func NoKind(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Networks returns why Networks cannot be listed, for a command that is nothing without them.
func Networks(err error) error {
	switch {
	case err == nil:
		return nil
	case NoKind(err):
		return fmt.Errorf("the API server does not serve Networks: the CRDs are not installed (%s)", crd.Install)
	}
	return fmt.Errorf("listing Networks: %w", err)
}

// Note notes what could not be read, once.
func (c *Cluster) Note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.Notes, text) {
		c.Notes = append(c.Notes, text)
	}
}
