package kubectl

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
)

func (f *factory) why() *cobra.Command {
	output := ""
	c := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Say why a Network, a port, a Pod or another object is not as it should be",
		Long: `why goes from an object to the cause of its problem, over everything that it depends on. Each line is an
object and what it says; the last one is the cause. After it comes what to do.

It reads Kubernetes alone and changes nothing. What you may not read is listed as "Not known". The kinds are
` + strings.Join(why.Kinds(), ", ") + ".",
		Example: `  # A Pod does not start:
  kubectl network why pod/web-5d9c7b8f4-x2x9k

  # A Deployment of another namespace:
  kubectl network why deployment/web -n shop

  # A Service's floating IP does not answer:
  kubectl network why service/web

  # For a script: is anything wrong?
  kubectl network why network/frontend -o json | jq .healthy`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: f.completeWhy,
		RunE: func(c *cobra.Command, args []string) error {
			of, err := f.objectOf(args)
			if err != nil {
				return err
			}
			cluster, err := f.cluster()
			if err != nil {
				return err
			}
			answer, err := why.Explain(c.Context(), cluster, of, f.now())
			if err != nil {
				return err
			}
			return f.print(output, answer, answer.Names, func() error {
				return why.Print(f.Out, answer, text.StyleFor(f.Out), f.now())
			})
		},
	}
	f.outputFlag(c, &output, "json", "yaml", "name")
	return c
}

// objectOf reads the argument of why: KIND/NAME, or KIND NAME.
func (f *factory) objectOf(args []string) (why.Object, error) {
	kind, name, split := strings.Cut(args[0], "/")
	switch {
	case len(args) == 2 && !split:
		name = args[1]
	case len(args) == 2 || !split || name == "":
		return why.Object{}, fmt.Errorf("%q is no object: write KIND/NAME, such as pod/web-1", strings.Join(args, " "))
	}
	namespace, err := f.namespace()
	if err != nil {
		return why.Object{}, err
	}
	known := why.Spelled(kind)
	if known == "" {
		return why.Object{}, why.ErrKind(kind)
	}
	if known == why.KindNode || known == why.KindNetworkClass {
		namespace = ""
	}
	return why.Object{Kind: known, Namespace: namespace, Name: name}, nil
}

// completeWhy completes the kinds, and the names of a kind.
func (f *factory) completeWhy(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kind, _, named := strings.Cut(typed, "/")
	if !named {
		var all []string
		for _, k := range why.Kinds() {
			all = append(all, k+"/")
		}
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	var found []string
	for _, name := range f.namesOf(c.Context(), kind) {
		found = append(found, kind+"/"+name)
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// namesOf lists the objects of a kind in the namespace, for completion; none after an error.
func (f *factory) namesOf(ctx context.Context, kind string) (names []string) {
	of, err := f.objectOf([]string{kind, "-"})
	if err != nil {
		return nil
	}
	cluster, err := f.cluster()
	if err != nil {
		return nil
	}
	list, err := listOf(ctx, cluster, of.Kind, of.Namespace, metav1.ListOptions{})
	if err != nil || list == nil {
		return nil
	}
	_ = meta.EachListItem(list, func(item runtime.Object) error { // it fails for no list alone
		if object, ok := item.(metav1.Object); ok {
			names = append(names, object.GetName())
		}
		return nil
	})
	return names
}

// listOf lists the objects of a kind in a namespace. It is nil if this program lists none.
func listOf(
	ctx context.Context, c *ask.Cluster, kind, namespace string, options metav1.ListOptions,
) (runtime.Object, error) {
	core, apps := c.Kubernetes.CoreV1(), c.Kubernetes.AppsV1()
	switch kind {
	case why.KindPod:
		return core.Pods(namespace).List(ctx, options)
	case why.KindDeployment:
		return apps.Deployments(namespace).List(ctx, options)
	case why.KindStatefulSet:
		return apps.StatefulSets(namespace).List(ctx, options)
	case why.KindService:
		return core.Services(namespace).List(ctx, options)
	case why.KindNetworkClass:
		return c.Networks.CloudteamV1().NetworkClasses().List(ctx, options)
	case kindEvent:
		return core.Events(namespace).List(ctx, options)
	}
	if ours, is := kinds.Of(kind); is {
		return ours.In(c.Networks, namespace).List(ctx, options)
	}
	return nil, nil
}
