package bundle

import (
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/scheme"
)

// Program reports whether a container of a Pod in one of our namespaces runs a program of this project. Of others,
// such as those of a service mesh, an archive has nothing.
func Program(container string) bool {
	return slices.Contains([]string{"controller", "agent", "install-plugin"}, container)
}

// AddObjects adds objects, in a file for each namespace and kind. Of kinds that are not ours, it leaves out what others
// may keep secrets in. programs says that the objects are Pods of this project's programs.
func (a *Archive) AddObjects(programs bool, objects []kinds.Object) error {
	documents := map[string]*strings.Builder{}
	for _, object := range objects {
		of, _, err := kubescheme.Scheme.ObjectKinds(object)
		if err != nil {
			of, _, err = scheme.Scheme.ObjectKinds(object)
		}
		if err != nil {
			return err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return err
		}
		content["apiVersion"], content["kind"] = of[0].GroupVersion().String(), of[0].Kind
		clean(content)
		if of[0].Group != cloudteam.GroupName {
			shorten(content, programs)
		}
		document, err := yaml.Marshal(a.texts.Value(content))
		if err != nil {
			return err
		}
		resource, _ := meta.UnsafeGuessKindToResource(of[0])
		file := path.Join("objects", object.GetNamespace(), resource.Resource+".yaml")
		if documents[file] == nil {
			documents[file] = &strings.Builder{}
		}
		documents[file].WriteString("---\n" + string(document))
	}
	for _, file := range slices.Sorted(maps.Keys(documents)) {
		a.add(file, documents[file].String())
	}
	return nil
}

// clean leaves of an object's annotations ours, and the standard's of Pods' networks.
func clean(object map[string]any) {
	unstructured.RemoveNestedField(object, "metadata", "managedFields")
	annotations, _, _ := unstructured.NestedMap(object, "metadata", "annotations") // a map, or none
	for name := range annotations {
		if group, _, _ := strings.Cut(name, "/"); group != cloudteam.GroupName && group != "k8s.v1.cni.cncf.io" {
			unstructured.RemoveNestedField(object, "metadata", "annotations", name)
		}
	}
}

// shorten leaves of an object metadata, status, and the fields of the spec that say where its networks are.
func shorten(object map[string]any, program bool) {
	spec, _, _ := unstructured.NestedMap(object, "spec")
	kept := fields(spec, "nodeName", "hostNetwork", "schedulingGates", "replicas", "selector", "type")
	object["spec"] = kept
	if template, has, _ := unstructured.NestedMap(spec, "template"); has {
		clean(template)
		kept["template"] = fields(template, "metadata")
	}
	if containers, has, _ := unstructured.NestedSlice(spec, "containers"); has && program {
		var ours []any
		for _, of := range containers {
			if of := fields(of.(map[string]any), "name", "image", "args"); Program(of["name"].(string)) {
				ours = append(ours, of)
			}
		}
		kept["containers"] = ours
	}
	for _, field := range []string{"containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"} {
		containers, has, _ := unstructured.NestedSlice(object, "status", field)
		for i := range containers {
			for _, state := range []string{"state", "lastState"} { // the message may be the end of its log
				unstructured.RemoveNestedField(containers[i].(map[string]any), state, "terminated", "message")
			}
		}
		if has {
			_ = unstructured.SetNestedSlice(object, containers, "status", field) // it was there
		}
	}
}

// fields are those of a value that it has.
func fields(of map[string]any, names ...string) map[string]any {
	kept := map[string]any{}
	for _, name := range names {
		if value, has := of[name]; has {
			kept[name] = value
		}
	}
	return kept
}
