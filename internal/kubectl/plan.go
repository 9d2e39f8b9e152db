package kubectl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/adoption"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/planning"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// plan is the result of kubectl network plan.
type plan struct {
	Objects []planning.Result `json:"objects"`
	// Calls is the most requests to Neutron that the steps need.
	Calls  int              `json:"calls"`
	Quotas []planning.Quota `json:"quotas,omitempty"`
}

func (f *factory) plan() *cobra.Command {
	output, cloudName, cluster := "", "", ""
	var files resource.FilenameOptions
	c := &cobra.Command{
		Use:   "plan -f FILENAME",
		Short: "Say what applying a file would do in Neutron, and change nothing",
		Long: `plan says step by step what the controller would do in Neutron if you applied the Networks of a file and the
other objects of this project there, and whether traffic stops. It uses the controller's own code. It changes nothing
in Kubernetes or in Neutron: the API server checks the objects in a dry run, which needs the right to create or update
them.

It takes the spec in the file as the whole spec, and your own cloud in place of the objects' credentials. Their project
must be the same. -o name gives the objects for which something would be done. The exit code is 0 if nothing would be
done, 2 if something would, and 1 after an error, or if an object would not be applied or a quota is too small.`,
		Example: `  # What would this edit do?
  kubectl network plan -f network.yaml --cloud mycloud

  # For a pipeline: fail if traffic would stop.
  kubectl network plan -f networks/ -o json | jq -e '[.objects[].steps[]?.stops // empty] == []'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			result, cluster, err := f.planFiles(c.Context(), &files, cloudName, cluster)
			if err != nil {
				return err
			}
			changed := objectNames(result.Objects, func(o planning.Result) string {
				if len(o.Steps) == 0 {
					return ""
				}
				return nameOf(o.Object.Kind, o.Object.Name)
			})
			err = f.print(output, result, changed, func() error { return result.print(f) })
			if err = errors.Join(err, f.notes(cluster)); err != nil {
				return err
			}
			return result.exit()
		},
	}
	c.Flags().StringSliceVarP(&files.Filenames, "filename", "f", nil,
		"Files, folders or URLs with the objects; - is standard input")
	c.Flags().StringVarP(&files.Kustomize, "kustomize", "k", "", "A folder with a kustomization.yaml")
	c.Flags().BoolVarP(&files.Recursive, "recursive", "R", false, "Read the folders below a folder, too")
	c.Flags().StringVar(&cluster, "cluster-uid", "", "UID of the namespace kube-system, if you may not read it")
	c.MarkFlagsOneRequired("filename", "kustomize")
	f.outputFlag(c, &output, "json", "yaml", "name")
	f.cloudFlag(c, &cloudName)
	return c
}

func (f *factory) planFiles(
	ctx context.Context, files *resource.FilenameOptions, cloudName, uid string,
) (result plan, cluster *ask.Cluster, err error) {
	if cluster, err = f.cluster(); err != nil {
		return result, nil, err
	}
	cloud, err := f.neutronFor("a plan needs Neutron", cloudName)
	if err != nil {
		return result, nil, err
	}
	file, err := f.read(files, cluster)
	if err != nil {
		return result, nil, err
	}
	result, err = planOf(ctx, cluster, cloud, file, uid, planning.Stored)
	return result, cluster, err
}

// planOf plans objects as stored gives them; nil for objects that are in the API server. After an error, the plan has
// those before it.
func planOf(
	ctx context.Context, cluster *ask.Cluster, cloud *client.Cloud, objects []kinds.Object, uid string, stored storing,
) (result plan, err error) {
	if uid, err = clusterOf(ctx, cluster, cloud, objects, uid); err != nil {
		return result, err
	}
	planner, err := planning.New(ctx, cluster, inventory.New(cloud, uid, inventory.Options{Ports: true}), uid)
	if err != nil {
		return result, err
	}
	defer planner.Close() //nolint:contextcheck // the queues end whatever becomes of the context
	if result.Objects, err = planAll(ctx, cluster, planner, objects, stored); err == nil {
		result.quotas(ctx, cluster, cloud)
	}
	return result, err
}

// storing gives an object as it would be in the API server; see planning.Stored.
type storing func(context.Context, *ask.Cluster, kinds.Object) (kinds.Object, error)

// nobody is the UID of a cluster that has nothing in Neutron.
const nobody = "unknown"

// clusterOf is planning.ClusterUID. A user who may not read the UID finds it in Neutron, in the markers of an object of
// the file. While none of them has anything there, the plan is the same for any cluster.
func clusterOf(
	ctx context.Context, cluster *ask.Cluster, cloud *client.Cloud, file []kinds.Object, given string,
) (string, error) {
	uid, err := planning.ClusterUID(ctx, cluster, given)
	if !apierrors.IsForbidden(err) {
		return uid, err
	}
	survey, err := adoption.Look(ctx, cloud)
	if err != nil {
		return "", err
	}
	for _, obj := range file {
		of := kinds.OfObject(obj).In(cluster.Networks, obj.GetNamespace())
		if is, err := of.Get(ctx, obj.GetName(), metav1.GetOptions{}); err == nil {
			if uid := survey.ClusterOf(string(is.GetUID())); uid != "" {
				return uid, nil
			}
		}
	}
	return nobody, nil
}

// planAll plans the objects of files, in the order of kinds.All: later ones depend on earlier ones.
func planAll(
	ctx context.Context, cluster *ask.Cluster, planner *planning.Planner, file []kinds.Object, stored storing,
) (all []planning.Result, err error) {
	seen := map[string]bool{}
	for _, kind := range kinds.All {
		for _, obj := range file {
			if kinds.OfObject(obj).Name != kind.Name {
				continue
			}
			if stored != nil {
				var err error
				if obj, err = stored(ctx, cluster, obj); err != nil {
					return all, err
				}
			}
			dependsOn := []string{obj.GetNamespace()}
			if port, ok := obj.(*cloudteamv1.NetworkPort); ok {
				dependsOn = append(dependsOn, port.Network().Namespace)
			}
			for _, namespace := range dependsOn {
				if seen[namespace] {
					continue
				}
				seen[namespace] = true
				if err := planning.Others(ctx, cluster, planner, namespace); err != nil {
					return all, err
				}
			}
			if err := planner.Know(obj); err != nil {
				return all, err
			}
			result, err := planner.Plan(ctx, obj)
			if err != nil {
				return all, err
			}
			all = append(all, result)
		}
	}
	return all, nil
}

// read decodes what can be planned of files.
func (f *factory) read(files *resource.FilenameOptions, cluster *ask.Cluster) (file []kinds.Object, err error) {
	namespace, err := f.namespace()
	if err != nil {
		return file, err
	}
	err = resource.NewBuilder(f.config).Local().Unstructured().NamespaceParam(namespace).DefaultNamespace().
		FilenameParam(false, files).Flatten().Do().Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		from, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			return nil
		}
		if from.GroupVersionKind().GroupKind() == namespaces {
			if cluster.NewNamespaces == nil {
				cluster.NewNamespaces = map[string]labels.Set{}
			}
			cluster.NewNamespaces[from.GetName()] = labels.Merge(from.GetLabels(),
				labels.Set{corev1.LabelMetadataName: from.GetName()})
			return nil
		}
		kind, ok := planning.Kind(from.GroupVersionKind())
		if !ok {
			cluster.Note("%s %q is no %s, and is not planned.", from.GetKind(), from.GetName(), kinds.OneOf())
			return nil
		}
		if from.GetNamespace() == "" {
			from.SetNamespace(namespace)
		}
		obj := kind.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from.Object, obj, true); err != nil {
			return fmt.Errorf("%s: %w", info.Source, err)
		}
		file = append(file, obj)
		return nil
	})
	return file, err
}

// namespaces is the kind of Namespaces.
var namespaces = schema.GroupKind{Kind: "Namespace"}

// quotas counts the calls, and reads the quotas.
func (p *plan) quotas(ctx context.Context, cluster *ask.Cluster, cloud *client.Cloud) {
	for _, o := range p.Objects {
		p.Calls += len(o.Steps)
	}
	quotas, err := planning.Quotas(ctx, cloud, p.Objects)
	if err != nil {
		cluster.Note("The project's quotas are not known: %v.", err)
	}
	p.Quotas = quotas
}

// exit is 1 if an object would not be applied or a quota is too small, 2 if something would be done, and nil if nothing
// would.
func (p *plan) exit() error {
	code := 0
	for _, o := range p.Objects {
		switch {
		case o.Problem != "":
			return &ExitError{1}
		case len(o.Steps) > 0:
			code = 2
		}
	}
	if slices.ContainsFunc(p.Quotas, planning.Quota.Exceeded) {
		return &ExitError{1}
	}
	if code == 0 {
		return nil
	}
	return &ExitError{code}
}

func (p *plan) print(f *factory) error {
	to, style := text.NewPrinter(f.Out), text.StyleFor(f.Out)
	stops := 0
	for _, o := range p.Objects {
		to.Line("%s", style.Strong(o.Object.String()))
		switch {
		case o.Problem != "":
			to.Wrapped("  ", "It would not be applied. "+o.Problem)
		case len(o.Steps) == 0:
			to.Wrapped("  ", "Nothing to do.")
		}
		for i, s := range o.Steps {
			to.Wrapped("  ", fmt.Sprintf("%d. %s", i+1, s.Does))
			if s.Stops != "" {
				stops++
				to.Wrapped("     ", "Traffic: "+s.Stops+".")
			}
		}
		for _, note := range o.Notes {
			to.Wrapped("  ", "Note: "+note)
		}
	}
	if p.Calls == 0 {
		return to.Err()
	}
	to.Line("")
	if stops == 0 {
		to.Line("Traffic: no step stops it.")
	} else {
		to.Line("Traffic: %d of %d steps stop some.", stops, p.Calls)
	}
	to.Line("Calls to Neutron: %d at most.", p.Calls)
	for _, q := range p.Quotas {
		to.Line("Quota: %s.", q)
	}
	return to.Err()
}
