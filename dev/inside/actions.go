package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
)

const (
	// student is the name of the Network and of the Deployment that the buttons are about.
	student = "student"
	// unsure is the Network whose create loses its answer, and missed the one whose deletion nobody watches.
	unsure, missed = student + "-2", student + "-3"
)

// World is what the buttons act on.
type World struct {
	Kube     kubernetes.Interface
	Networks versioned.Interface
	// Namespace is where the Network and the Deployment are.
	Namespace string
	// Restart kills the controller as kill -9 does, starts another one, and waits until it is ready.
	Restart func(context.Context) error
	// Blind has the controller's watch of Networks miss what do does; see Front.
	Blind func(ctx context.Context, do func() error) error

	// The rest is for the emulator, and nil with another cloud. Lose has Neutron lose the answer to the next create of a
	// network, Break has it answer 503 for BrokenFor, and Change writes to a resource of Neutron as another user does.
	Lose, Break func()
	Change      func(ctx context.Context, path string, body any) error
}

// BrokenFor is how long Neutron is broken by a button.
const BrokenFor = 10 * time.Second

// Actions are the buttons.
func (w World) Actions() []Action {
	actions := []Action{
		{"create", "Create the Network", "From ADDED to the POST: the whole pipeline.", w.create},
		{"edit", "Edit it", "The generation moves. The plan has one step.", w.edit},
		{"edits", "Edit it 20 times", "Twenty events, few syncs: the queue holds a key once.", w.editOften},
		{"scale", "Run Pods on it", "A Deployment of 3 Pods, or of 1 after that. Each gets a port.", w.scale},
	}
	if w.Lose != nil {
		actions = append(actions,
			Action{"drift", "Change it in Neutron", "The next audit sees it, and the plan takes it back.", w.drift},
			Action{"lose", "Lose an answer", "Was it created? The next sync looks, and makes no second one.", w.lose},
			Action{"break", "Break Neutron for 10 s", "Retries with backoff, the circuit breaker, the repair.",
				w.breakNeutron})
	}
	return append(actions,
		Action{"miss", "Miss a deletion", "The watch is cut, and the new list lacks it: handlers get a tombstone.", w.miss},
		Action{"kill", "Kill the controller", "kill -9, then a new process: it lists all and continues.", w.kill},
		Action{"delete", "Delete the Networks", "The finalizer keeps each until Neutron has nothing of it.", w.delete})
}

func (w World) network(name, cidr string) *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
	n.Spec.CIDR = cidr
	return n
}

// ensure creates a Network if there is none.
func (w World) ensure(ctx context.Context, name, cidr string) error {
	_, err := w.Networks.CloudteamV1().Networks(w.Namespace).Create(ctx, w.network(name, cidr), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (w World) create(ctx context.Context) (string, error) {
	return "Network " + student + " was created.", w.ensure(ctx, student, "10.99.0.0/24")
}

// describe edits the Network's description.
func (w World) describe(ctx context.Context, text string) error {
	if err := w.ensure(ctx, student, "10.99.0.0/24"); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"description": text}})
	if err != nil {
		return err
	}
	_, err = w.Networks.CloudteamV1().Networks(w.Namespace).Patch(ctx, student, types.MergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

func (w World) edit(ctx context.Context) (string, error) {
	text := "Edited at " + time.Now().Format(time.TimeOnly+".000")
	return "spec.description is: " + text, w.describe(ctx, text)
}

func (w World) editOften(ctx context.Context) (string, error) {
	for n := range 20 {
		if err := w.describe(ctx, fmt.Sprintf("Edit %d of %s", n+1, time.Now().Format(time.TimeOnly))); err != nil {
			return "", err
		}
	}
	return "spec.description was edited 20 times.", nil
}

func (w World) scale(ctx context.Context) (string, error) {
	if err := w.ensure(ctx, student, "10.99.0.0/24"); err != nil {
		return "", err
	}
	deployments := w.Kube.AppsV1().Deployments(w.Namespace)
	found, err := deployments.Get(ctx, student, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		labels := map[string]string{"app": student}
		_, err := deployments.Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: student},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{selection.Annotation: student}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: student, Image: student}}},
				},
			},
		}, metav1.CreateOptions{})
		return "Deployment " + student + " was created with 3 Pods.", err
	}
	if err != nil {
		return "", err
	}
	replicas := 4 - *found.Spec.Replicas // 3 and 1 in turn
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err = deployments.Patch(ctx, student, types.MergePatchType, patch, metav1.PatchOptions{})
	return fmt.Sprintf("Deployment %s was scaled to %d.", student, replicas), err
}

func (w World) drift(ctx context.Context) (string, error) {
	n, err := w.Networks.CloudteamV1().Networks(w.Namespace).Get(ctx, student, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if n.Status.NetworkID == "" {
		return "", errors.New("the Network has nothing in Neutron yet")
	}
	return "Somebody renamed the network in Neutron.",
		w.Change(ctx, "networks/"+n.Status.NetworkID, map[string]any{"network": map[string]any{"name": "by-hand"}})
}

func (w World) lose(ctx context.Context) (string, error) {
	networks := w.Networks.CloudteamV1().Networks(w.Namespace)
	if _, err := networks.Get(ctx, unsure, metav1.GetOptions{}); err == nil {
		return "", fmt.Errorf("%s exists: delete the Networks first", unsure)
	}
	w.Lose()
	return "Network " + unsure + " was created. Neutron makes its network, and the answer gets lost. Choose it.",
		w.ensure(ctx, unsure, "10.99.1.0/24")
}

func (w World) breakNeutron(ctx context.Context) (string, error) {
	w.Break()
	return fmt.Sprintf("Neutron answers %d for %s, and the Network was edited.", http.StatusServiceUnavailable, BrokenFor),
		w.describe(ctx, "Edited while Neutron was broken, at "+time.Now().Format(time.TimeOnly))
}

// miss removes a Network while the controller's watch misses it. The finalizer is forced off, because the controller,
// which takes it off otherwise, knows of no deletion.
func (w World) miss(ctx context.Context) (string, error) {
	// The list after it has another Network, so that a student sees what a list brings.
	if err := errors.Join(w.ensure(ctx, student, "10.99.0.0/24"), w.ensure(ctx, missed, "10.99.2.0/24")); err != nil {
		return "", err
	}
	networks := w.Networks.CloudteamV1().Networks(w.Namespace)
	err := wait.PollUntilContextCancel(ctx, again, true, func(ctx context.Context) (bool, error) {
		n, err := networks.Get(ctx, missed, metav1.GetOptions{})
		return err == nil && n.Status.NetworkID != "", err
	})
	if err != nil {
		return "", fmt.Errorf("waiting until Neutron has the network of %s: %w", missed, err)
	}
	err = w.Blind(ctx, func() error {
		if err := networks.Delete(ctx, missed, metav1.DeleteOptions{}); err != nil {
			return err
		}
		_, err := networks.Patch(ctx, missed, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		return err
	})
	return "The watch was cut, and " + missed + " was removed with its finalizer meanwhile. Choose it.", err
}

func (w World) kill(ctx context.Context) (string, error) {
	return "The process was killed. Another one runs.", w.Restart(ctx)
}

func (w World) delete(ctx context.Context) (string, error) {
	err := w.Kube.AppsV1().Deployments(w.Namespace).Delete(ctx, student, metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationBackground)})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", err
	}
	for _, name := range []string{student, unsure, missed} {
		err := w.Networks.CloudteamV1().Networks(w.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return "", err
		}
	}
	return "The Deployment and the Networks are being deleted.", nil
}
