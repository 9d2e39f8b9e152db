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
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/util/retry"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// manager is the field manager of the requests, none of which is stored.
const manager = "kubectl-network"

// Stored gives an object as the API server would store it: with what it validates, and the status that is there. It
// stores nothing. The controller may write the status between the read and the dry run: then both are done again.
func Stored(ctx context.Context, c *ask.Cluster, file kinds.Object) (stored kinds.Object, err error) {
	kind := kinds.OfObject(file)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		stored, err = dryRun(ctx, c, kind, file)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the API server would not accept %s: %w", ask.Of(file), err)
	}
	return stored, nil
}

func dryRun(ctx context.Context, c *ask.Cluster, kind kinds.Kind, file kinds.Object) (kinds.Object, error) {
	dry, to := []string{metav1.DryRunAll}, kind.In(c.Networks, file.GetNamespace())
	edited, err := to.Get(ctx, file.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !ask.NoKind(err) {
		options := metav1.CreateOptions{DryRun: dry, FieldManager: manager}
		is, err := to.Create(ctx, file, options)
		namespace := file.GetNamespace()
		if _, comes := c.NewNamespaces[namespace]; !comes || !apierrors.IsNotFound(err) {
			return is, err
		}
		// The rules of the CRD are the same in one that exists.
		file.SetNamespace(metav1.NamespaceDefault)
		defer file.SetNamespace(namespace)
		is, err = kind.In(c.Networks, metav1.NamespaceDefault).Create(ctx, file, options)
		if Denial(err) != "" || apierrors.IsForbidden(err) { // by what is that namespace's: policies, a quota, rights
			c.Note("Nothing has checked the objects of namespace %q, because it does not exist yet: once it does, plan them "+
				"again.", namespace)
			is, err = file.DeepCopyObject().(kinds.Object), nil
			is.SetUID(uuid.NewUUID())
			is.SetGeneration(1)
		}
		if err == nil {
			is.SetNamespace(namespace)
		}
		return is, err
	}
	if err != nil {
		return nil, err
	}
	kind.SetSpec(edited, file)
	if more := file.GetAnnotations(); len(more) > 0 {
		all := maps.Clone(edited.GetAnnotations())
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, more)
		edited.SetAnnotations(all)
	}
	return to.Update(ctx, edited, metav1.UpdateOptions{DryRun: dry, FieldManager: manager})
}

// Refusals gives what the rules of the CRD refuse in a new Network, by its fields; none if they accept it. Whether its
// name is free, and what its class and the user's rights allow, are other questions. The error is the Denial of a
// policy, or says why nobody knows.
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
		case Denial(err) != "" && trial.Namespace != n.Namespace: // policies come after the rules
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

// Denial is why a policy of admission denies a request; empty if none does. The user's rights, and the rules of the
// kind, are asked before.
func Denial(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.Status().Details == nil {
		return ""
	}
	for _, c := range status.Status().Details.Causes {
		if c.Type == "" && c.Field == "" {
			return c.Message
		}
	}
	return ""
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
	for _, kind := range kinds.All {
		all, _ := ask.Objects(ctx, c, kind, namespace)
		if err := p.Know(all...); err != nil {
			return err
		}
	}
	return nil
}

// Kind tells what an object of a file is; ok is false if it cannot be planned.
func Kind(of schema.GroupVersionKind) (kind kinds.Kind, ok bool) {
	if of.Group != cloudteamv1.SchemeGroupVersion.Group {
		return kinds.Kind{}, false
	}
	return kinds.Of(of.Kind)
}
