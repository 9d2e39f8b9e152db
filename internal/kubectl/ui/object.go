package ui

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
	"cloudteam.ztgame.com/network-controller/internal/redact"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Details are what the page shows of an object that is selected.
type Details struct {
	Object ask.Object `json:"object"`
	// Answer is what kubectl network why says.
	Answer     why.Answer          `json:"answer"`
	Conditions []Condition         `json:"conditions,omitempty"`
	Drift      []cloudteamv1.Drift `json:"drift,omitempty"`
	Events     []Event             `json:"events,omitempty"`
	// Owner is the Deployment of a NetworkPort.
	Owner *ask.Object `json:"owner,omitempty"`
	// YAML is the object without its managed fields. Values of environment variables of Pods are left out.
	YAML string `json:"yaml"`
}

// Condition is a condition with what to do about it.
type Condition struct {
	Type    string      `json:"type"`
	Status  string      `json:"status"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Since   metav1.Time `json:"since"`
	// Bad says that the condition reports a problem. Remedy is what to do about it.
	Bad    bool   `json:"bad,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// Event is an Event of the object.
type Event struct {
	Type    string      `json:"type"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Count   int32       `json:"count"`
	Last    metav1.Time `json:"last"`
}

// describe gives the details of an object. The kinds are those that kubectl network why knows: never a Secret.
func describe(ctx context.Context, c *ask.Cluster, of ask.Object, now time.Time) (*Details, error) {
	object, err := get(ctx, c, of)
	if err != nil {
		return nil, err
	}
	d := &Details{Object: of, Conditions: conditionsOf(of, object)}
	if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == why.KindDeployment {
		d.Owner = new(ask.New(owner.Kind, of.Namespace, owner.Name))
	}
	if d.Answer, err = why.Explain(ctx, c, of, now); err != nil {
		return nil, err
	}
	if status := statusOf(of, object); status != nil {
		d.Drift = status.Drift
	}
	about := fields.Set{"involvedObject.kind": of.Kind, "involvedObject.name": of.Name,
		"involvedObject.uid": string(object.GetUID())}
	events, is := ask.List(ctx, c, ask.New("Events", "", "of "+of.String()),
		c.Kubernetes.CoreV1().Events(of.Namespace).List, metav1.ListOptions{FieldSelector: about.String()})
	if is == ask.There {
		d.Events = eventsOf(events.Items)
	}
	for _, note := range c.Notes {
		if !slices.Contains(d.Answer.Notes, note) {
			d.Answer.Notes = append(d.Answer.Notes, note)
		}
	}
	text, err := yaml.Marshal(object)
	d.YAML = string(text)
	return d, err
}

// get reads an object, without what the page does not show.
func get(ctx context.Context, c *ask.Cluster, of ask.Object) (object kinds.Object, err error) {
	options := metav1.GetOptions{}
	kind, ours := kinds.Of(of.Kind)
	switch {
	case ours:
		object, err = kind.In(c.Networks, of.Namespace).Get(ctx, of.Name, options)
		object.GetObjectKind().SetGroupVersionKind(cloudteamv1.SchemeGroupVersion.WithKind(of.Kind))
	case of.Kind == why.KindPod:
		p, failed := c.Kubernetes.CoreV1().Pods(of.Namespace).Get(ctx, of.Name, options)
		object, err = p, failed
		p.APIVersion, p.Kind = "v1", of.Kind
		hide(&p.Spec)
	case of.Kind == why.KindDeployment:
		d, failed := c.Kubernetes.AppsV1().Deployments(of.Namespace).Get(ctx, of.Name, options)
		object, err = d, failed
		d.APIVersion, d.Kind = "apps/v1", of.Kind
		hide(&d.Spec.Template.Spec)
	default:
		return nil, apierrors.NewBadRequest(
			fmt.Sprintf("%q is not shown here: name a Pod, a Deployment, or a %s", of.Kind, kinds.OneOf()))
	}
	if err != nil {
		return nil, err
	}
	object.SetManagedFields(nil)
	annotations := object.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation) // the whole spec once more, with the values of variables
	object.SetAnnotations(annotations)
	return object, nil
}

// hide removes the values of environment variables: they often are passwords.
func hide(spec *corev1.PodSpec) {
	variables := func(env []corev1.EnvVar) {
		for i := range env {
			if env[i].Value != "" {
				env[i].Value = redact.Placeholder
			}
		}
	}
	for i := range spec.Containers {
		variables(spec.Containers[i].Env)
	}
	for i := range spec.InitContainers {
		variables(spec.InitContainers[i].Env)
	}
	for i := range spec.EphemeralContainers {
		variables(spec.EphemeralContainers[i].Env)
	}
}

// statusOf is what the status of each kind of ours has; nil for the kinds of Kubernetes.
func statusOf(of ask.Object, object kinds.Object) *cloudteamv1.ResourceStatus {
	if kind, ours := kinds.Of(of.Kind); ours {
		return kind.Status(object)
	}
	return nil
}

// conditionsOf are the conditions of an object of any kind, with what to do.
func conditionsOf(of ask.Object, object kinds.Object) (all []Condition) {
	if status := statusOf(of, object); status != nil {
		for _, said := range status.Conditions {
			all = append(all, conditionOf(of, said))
		}
	}
	switch o := object.(type) {
	case *corev1.Pod:
		done := o.Status.Phase == corev1.PodSucceeded
		for _, said := range o.Status.Conditions {
			bad := (said.Type == corev1.DisruptionTarget) == (said.Status == corev1.ConditionTrue) && !done
			all = append(all, Condition{Type: string(said.Type), Status: string(said.Status), Reason: said.Reason,
				Message: said.Message, Since: said.LastTransitionTime, Bad: bad})
		}
	case *appsv1.Deployment:
		for _, said := range o.Status.Conditions {
			bad := (said.Type == appsv1.DeploymentReplicaFailure) == (said.Status == corev1.ConditionTrue)
			all = append(all, Condition{Type: string(said.Type), Status: string(said.Status), Reason: said.Reason,
				Message: said.Message, Since: said.LastTransitionTime, Bad: bad})
		}
	}
	return all
}

func conditionOf(of ask.Object, said metav1.Condition) Condition {
	c := Condition{Type: said.Type, Status: string(said.Status), Reason: said.Reason, Message: said.Message,
		Since: said.LastTransitionTime}
	positive := said.Type == cloudteamv1.ConditionReady || said.Type == cloudteamv1.ConditionAttached
	c.Bad = positive != (said.Status == metav1.ConditionTrue) || said.Reason == cloudteamv1.ReasonDriftDetected ||
		said.Reason == cloudteamv1.ReasonPaused
	if c.Bad {
		c.Remedy = why.RemedyOf(of, said.Reason)
	}
	return c
}

// eventsOf are Events, the last first.
func eventsOf(all []corev1.Event) (events []Event) {
	for _, e := range all {
		last, count := ask.Seen(e)
		events = append(events, Event{Type: e.Type, Reason: e.Reason, Message: e.Message, Count: count, Last: last})
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(b.Last.UnixNano(), a.Last.UnixNano()) })
	return events
}
