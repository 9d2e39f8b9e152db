package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// leaver is one run of kubectl network uninstall.
type leaver struct {
	*factory
	keep, yes bool
	output    string
	// timeout bounds the wait for the objects of one kind.
	timeout time.Duration
	cluster *ask.Cluster
}

// leaving is an object that goes.
type leaving struct {
	Object ask.Object `json:"object"`
	// Keeps is what stays of it in Neutron.
	Keeps []kinds.Resource `json:"keeps,omitempty"`
	// Problem is why it cannot go yet.
	Problem string `json:"problem,omitempty"`

	obj kinds.Object
}

func (f *factory) uninstall() *cobra.Command {
	l := &leaver{factory: f}
	c := &cobra.Command{
		Use:   "uninstall --keep",
		Short: "Delete all objects, and keep in Neutron what they have there",
		Long: `uninstall is for leaving this controller without losing a network. For each object of all
namespaces that has something in Neutron, it sets deletionPolicy to Retain and deletes the object. The controller takes
the markers off, and never touches what was kept. Then the controller can be removed (docs/install.md).

First delete the workloads on the networks: ports of Pods and Deployments go with them. Stop what applies the objects
again, such as Argo CD or Flux.

Without --yes it lists what would be kept. Save that list (-o yaml): once the objects are gone, nothing in the cluster
has the ids. The exit code is 0 if there are no objects or all are gone, 2 if --yes would delete some, and 1 after an
error or if something is in the way.`,
		Example: `  # What would be kept?
  kubectl network uninstall --keep

  # Save the ids, and leave:
  kubectl network uninstall --keep -o yaml > kept.yaml
  kubectl network uninstall --keep --yes`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return l.run(c.Context()) },
	}
	c.Flags().BoolVar(&l.keep, "keep", false, "Keep in Neutron what the objects have there. There is no other way yet: "+
		"write it, so that nobody expects a deletion")
	c.Flags().BoolVar(&l.yes, "yes", false, "Delete the objects")
	c.Flags().DurationVar(&l.timeout, "timeout", 5*time.Minute, "How long the objects of one kind have to go")
	f.outputFlag(c, &l.output, "json", "yaml", "name")
	return c
}

func (l *leaver) run(ctx context.Context) (err error) {
	if !l.keep {
		return errors.New("write --keep to keep in Neutron what the objects have there. To delete it, delete the objects: " +
			"see \"Uninstall\" in docs/install.md")
	}
	if l.cluster, err = l.factory.cluster(); err != nil {
		return err
	}
	all, err := l.survey(ctx)
	if err != nil {
		return err
	}
	names := objectNames(all, func(o leaving) string { return nameOf(o.Object.Kind, o.Object.Name) })
	if err := l.print(l.output, all, names, func() error { return l.printLeaving(all) }); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(all, func(o leaving) bool { return o.Problem != "" }):
		return &ExitError{1}
	case len(all) == 0:
		return nil
	case !l.yes:
		return &ExitError{2}
	}
	return l.leave(ctx, all)
}

// survey lists all objects, those first on which no other depends.
func (l *leaver) survey(ctx context.Context) (all []leaving, err error) {
	for _, kind := range slices.Backward(kinds.All) {
		objs, err := ask.Everywhere(ctx, l.cluster, kind.Name)
		if err != nil {
			return nil, err
		}
		for _, obj := range objs {
			all = append(all, leaving{Object: ask.Of(obj), Keeps: kind.Has(obj), Problem: inTheWay(obj), obj: obj})
		}
	}
	return all, nil
}

// inTheWay says why an object cannot go yet.
func inTheWay(obj kinds.Object) string {
	owner := metav1.GetControllerOf(obj)
	if _, port := obj.(*cloudteamv1.NetworkPort); port && owner != nil {
		return fmt.Sprintf("%s %s uses it, and makes it again: delete the %s first.", owner.Kind, owner.Name, owner.Kind)
	}
	if paused, has := obj.GetAnnotations()[cloudteamv1.AnnotationPaused]; has && paused != "false" {
		return "It is paused: remove its annotation " + cloudteamv1.AnnotationPaused + " first."
	}
	return ""
}

// leave deletes all objects, kind by kind, and waits until they are gone.
func (l *leaver) leave(ctx context.Context, all []leaving) error {
	// Without a Lease, a controller may run with --leader-elect=false.
	if link, _, is := why.Controller(ctx, l.cluster, l.now()); link != nil && is != ask.Absent {
		return fmt.Errorf("no controller runs, and it alone takes the markers off: nothing was changed. %s: %s Start it, "+
			"and run the same command again", link.Object, link.Message)
	}
	for _, kind := range slices.Backward(kinds.All) {
		of := func(o leaving) bool { return o.Object.Kind == kind.Name }
		for _, o := range all {
			if !of(o) {
				continue
			}
			if err := l.delete(ctx, kind, o.obj); err != nil {
				return fmt.Errorf("%s: %w; run the same command again, it goes on where it stopped", o.Object, err)
			}
		}
		if slices.ContainsFunc(all, of) {
			if err := l.await(ctx, kind); err != nil {
				return err
			}
		}
	}
	_, _ = fmt.Fprintf(l.ErrOut, "%d objects are gone. What was kept has no marker. Go on with step 4 of \"Uninstall\" "+
		"in docs/install.md.\n", len(all))
	return nil
}

// delete has an object's resources stay, and deletes it as it is then: if somebody changes it in between, its
// resources may not stay any more, and both are done again.
func (l *leaver) delete(ctx context.Context, kind kinds.Kind, obj kinds.Object) error {
	in := kind.In(l.cluster.Networks, obj.GetNamespace())
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": obj.GetUID()}, // not another one of this name
		"spec":     map[string]any{"deletionPolicy": cloudteamv1.DeletionPolicyRetain},
	})
	if err != nil {
		return err
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		kept, err := in.Patch(ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		return in.Delete(ctx, obj.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
			UID: new(kept.GetUID()), ResourceVersion: new(kept.GetResourceVersion()),
		}})
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// leavePause is the pause between two looks at what is left.
const leavePause = time.Second

// await returns when no object of a kind is left.
func (l *leaver) await(ctx context.Context, kind kinds.Kind) error {
	var left []kinds.Object
	err := wait.PollUntilContextTimeout(ctx, leavePause, l.timeout, true, func(context.Context) (gone bool, err error) {
		left, err = ask.Everywhere(ctx, l.cluster, kind.Name)
		return err == nil && len(left) == 0, err
	})
	if len(left) == 0 || ctx.Err() != nil {
		return err
	}
	first, reason := left[0], "nothing says why"
	if ready := meta.FindStatusCondition(kind.Status(first).Conditions, cloudteamv1.ConditionReady); ready != nil {
		reason = ready.Message
	}
	return fmt.Errorf("%d %ss are not gone, such as %s/%s: %s Mend that, and run the same command again",
		len(left), kind.Name, first.GetNamespace(), first.GetName(), reason)
}

func (l *leaver) printLeaving(all []leaving) error {
	to, style := text.NewPrinter(l.Out), text.StyleFor(l.Out)
	networks, keeps := "", 0
	for _, o := range all {
		to.Line("%s", style.Strong(o.Object.String()))
		if o.Problem != "" {
			to.Wrapped("  ", o.Problem)
			continue
		}
		for _, k := range o.Keeps {
			to.Line("  %s", strings.TrimRight(fmt.Sprintf("%-14s  %s  %s", k.Kind, k.ID, k.Says), " "))
			keeps++
			if k.Kind == "network" && networks == "" {
				networks = k.ID
			}
		}
	}
	to.Line("")
	switch {
	case len(all) == 0:
		to.Line("There are no objects.")
	case slices.ContainsFunc(all, func(o leaving) bool { return o.Problem != "" }):
		to.Line("Nothing was changed: something is in the way.")
	case !l.yes:
		to.Line("Nothing was changed. With --yes: %d objects go, and %d resources stay in Neutron.", len(all), keeps)
	}
	if networks != "" {
		to.Wrapped("", "To have a network again, let a Network import it. This writes one, with your clouds.yaml:")
		to.Line("  kubectl network export --cloud NAME --name %s", networks)
	}
	return to.Err()
}
