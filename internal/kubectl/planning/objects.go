package planning

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// manager is the field manager of the requests, none of which is stored.
const manager = "kubectl-network"

// object is a kind of object that can be planned.
type object[T any] interface {
	*T
	metav1.Object
}

// api is the part of a generated client that asking needs.
type api[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error)
	Create(ctx context.Context, obj *T, options metav1.CreateOptions) (*T, error)
	Update(ctx context.Context, obj *T, options metav1.UpdateOptions) (*T, error)
}

// asStored gives an object as the API server would store it: with what it validates, and the status that is there. It
// stores nothing. in gives the client of a namespace, and spec copies the spec from one object to another. The
// controller may write the status between the read and the dry run: then both are done again.
func asStored[T any, P object[T], A api[T]](
	ctx context.Context, c *ask.Cluster, in func(namespace string) A, file P, spec func(to, from P),
) (stored P, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		stored, err = dryRun(ctx, c, in, file, spec)
		return err
	})
	return stored, err
}

func dryRun[T any, P object[T], A api[T]](
	ctx context.Context, c *ask.Cluster, in func(namespace string) A, file P, spec func(to, from P),
) (P, error) {
	dry, to := []string{metav1.DryRunAll}, in(file.GetNamespace())
	was, err := to.Get(ctx, file.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !ask.NoKind(err) {
		options := metav1.CreateOptions{DryRun: dry, FieldManager: manager}
		is, err := to.Create(ctx, file, options)
		if namespace := file.GetNamespace(); apierrors.IsNotFound(err) && slices.Contains(c.NewNamespaces, namespace) {
			// The rules are the same in one that exists.
			file.SetNamespace(metav1.NamespaceDefault)
			defer file.SetNamespace(namespace)
			if is, err = in(metav1.NamespaceDefault).Create(ctx, file, options); err == nil {
				P(is).SetNamespace(namespace)
			}
		}
		return is, err
	}
	if err != nil {
		return nil, err
	}
	edited := P(was)
	spec(edited, file)
	if more := file.GetAnnotations(); len(more) > 0 {
		all := maps.Clone(edited.GetAnnotations())
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, more)
		edited.SetAnnotations(all)
	}
	is, err := to.Update(ctx, edited, metav1.UpdateOptions{DryRun: dry, FieldManager: manager})
	return is, err
}

// Stored gives a Network as the API server would store it.
func Stored(ctx context.Context, c *ask.Cluster, n *cloudteamv1.Network) (*cloudteamv1.Network, error) {
	is, err := asStored(ctx, c, c.Networks.CloudteamV1().Networks, n,
		func(to, from *cloudteamv1.Network) { to.Spec = from.Spec })
	return is, refused(ask.New("Network", n.Namespace, n.Name), err)
}

// Refusals gives what the rules of the CRD refuse in a new Network, by its fields; none if they accept it. Whether its
// name is free, and what its class and the user's rights allow, are other questions. The error says why nobody knows.
func Refusals(ctx context.Context, c *ask.Cluster, n *cloudteamv1.Network) ([]metav1.StatusCause, error) {
	trial := n.DeepCopy()
	trial.Name, trial.GenerateName = "", "export-"
	for {
		_, err := c.Networks.CloudteamV1().Networks(trial.Namespace).Create(ctx, trial,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: manager})
		var status apierrors.APIStatus
		switch {
		case err == nil || apierrors.IsAlreadyExists(err):
			return nil, nil
		case apierrors.IsNotFound(err) && !ask.NoKind(err) && trial.Namespace != metav1.NamespaceDefault:
			trial.Namespace = metav1.NamespaceDefault // its own is not there yet, and the rules are the same
			continue
		case apierrors.IsInvalid(err) && errors.As(err, &status) && status.Status().Details != nil:
			// A policy of somebody else's names no field.
			causes := slices.DeleteFunc(slices.Clone(status.Status().Details.Causes),
				func(c metav1.StatusCause) bool { return c.Field == "" })
			if len(causes) > 0 {
				return causes, nil
			}
		}
		return nil, err
	}
}

// StoredPort gives a NetworkPort as the API server would store it.
func StoredPort(ctx context.Context, c *ask.Cluster, p *cloudteamv1.NetworkPort) (*cloudteamv1.NetworkPort, error) {
	is, err := asStored(ctx, c, c.Networks.CloudteamV1().NetworkPorts, p,
		func(to, from *cloudteamv1.NetworkPort) { to.Spec = from.Spec })
	return is, refused(ask.New("NetworkPort", p.Namespace, p.Name), err)
}

// StoredGroup gives a SecurityGroup as the API server would store it.
func StoredGroup(
	ctx context.Context, c *ask.Cluster, g *cloudteamv1.SecurityGroup,
) (*cloudteamv1.SecurityGroup, error) {
	is, err := asStored(ctx, c, c.Networks.CloudteamV1().SecurityGroups, g,
		func(to, from *cloudteamv1.SecurityGroup) { to.Spec = from.Spec })
	return is, refused(ask.New("SecurityGroup", g.Namespace, g.Name), err)
}

// StoredFloatingIP gives a FloatingIP as the API server would store it.
func StoredFloatingIP(
	ctx context.Context, c *ask.Cluster, f *cloudteamv1.FloatingIP,
) (*cloudteamv1.FloatingIP, error) {
	is, err := asStored(ctx, c, c.Networks.CloudteamV1().FloatingIPs, f,
		func(to, from *cloudteamv1.FloatingIP) { to.Spec = from.Spec })
	return is, refused(ask.New("FloatingIP", f.Namespace, f.Name), err)
}

func refused(of ask.Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the API server would not accept %s: %w", of, err)
}

// ClusterUID is the UID of the cluster, which is in the markers of its resources in Neutron. It is what the user gives,
// if anything.
func ClusterUID(ctx context.Context, c *ask.Cluster, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	space, err := c.Kubernetes.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the UID of the cluster (namespace kube-system): %w; "+
			"ask for it and give it by --cluster-uid", err)
	}
	return string(space.UID), nil
}

// Others reads the objects of a namespace that a plan depends on. What the user may not read is noted.
func Others(ctx context.Context, c *ask.Cluster, p *Planner, namespace string) error {
	of := c.Networks.CloudteamV1()
	networks, _ := ask.List[*cloudteamv1.Network](ctx, c, "Networks", namespace, of.Networks(namespace).List)
	ports, _ := ask.List[*cloudteamv1.NetworkPort](ctx, c, "NetworkPorts", namespace, of.NetworkPorts(namespace).List)
	groups, _ := ask.List[*cloudteamv1.SecurityGroup](
		ctx, c, "SecurityGroups", namespace, of.SecurityGroups(namespace).List)
	floating, _ := ask.List[*cloudteamv1.FloatingIP](ctx, c, "FloatingIPs", namespace, of.FloatingIPs(namespace).List)
	return errors.Join(p.Know(networks, ports, groups), p.KnowFloatingIPs(floating))
}

// Kind tells what an object of a file is: what can be planned, or a Namespace; empty for all else.
func Kind(of schema.GroupVersionKind) string {
	if of.Group == "" && of.Kind == "Namespace" {
		return of.Kind
	}
	if of.Group != cloudteamv1.SchemeGroupVersion.Group {
		return ""
	}
	switch of.Kind {
	case "Network", "NetworkPort", "SecurityGroup", "FloatingIP":
		return of.Kind
	}
	return ""
}
