package app

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	attachmentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/attachment"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/controller/netpolicy"
	servicecontroller "cloudteam.ztgame.com/network-controller/internal/controller/service"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	samplev1alpha1 "cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
)

// annotations are the annotations of a kind that a controller reads, with the most bytes of a value that it can use.
type annotations map[string]int

var (
	// ownAnnotations are those of each kind in Neutron. A kind's trims may have more.
	ownAnnotations = annotations{
		cloudteamv1.AnnotationPaused:   len("false"), // any other value pauses
		cloudteamv1.AnnotationCloud:    2 << 10,
		cloudteamv1.AnnotationTakeBack: 512,
		cloudteamv1.AnnotationImportID: 36,
		controller.AnnotationTooLarge:  1,
	}
	podAnnotations = annotations{
		selection.Annotation:                   selection.MaxSize,
		cloudteamv1.AnnotationAllocations:      consumer.MaxAllocationsSize,
		cloudteamv1.AnnotationDeclaredNetworks: selection.MaxSize,
		cloudteamv1.AnnotationSecurityGroups:   consumer.MaxGroupsSize,
		cloudteamv1.AnnotationFloatingIP:       consumer.MaxFloatingSize,
		corev1.MirrorPodAnnotationKey:          1 << 10,
	}
	// metadataAnnotations are what the agent of a node says, and what a virtual machine says of its ports.
	metadataAnnotations = annotations{
		cloudteamv1.AnnotationPortsWhenStopped:    1 << 10,
		cloudteamv1.AnnotationDataplane:           1 << 10,
		cloudteamv1.AnnotationDataplaneHost:       1 << 10,
		cloudteamv1.AnnotationDataplaneParent:     1 << 10,
		cloudteamv1.AnnotationDataplaneParentPort: 1 << 10,
	}
	serviceAnnotations = annotations{
		cloudteamv1.AnnotationFloatingIP:        consumer.MaxFloatingSize,
		cloudteamv1.AnnotationFloatingIPAddress: 64,
		cloudteamv1.AnnotationFloatingIPImport:  64,
		cloudteamv1.AnnotationEndpointsNetwork:  253,
		cloudteamv1.AnnotationEndpointsSelector: consumer.MaxEndpointsSize,
	}
	statefulSetAnnotations = annotations{cloudteamv1.AnnotationPortsWhenScaled: 1 << 10}
	templateAnnotations    = annotations{
		selection.Annotation: selection.MaxSize, cloudteamv1.AnnotationSecurityGroups: consumer.MaxGroupsSize,
		cloudteamv1.AnnotationFloatingIP: consumer.MaxFloatingSize,
	}
)

const (
	// hashAnnotation is the hash of what trim removed, in an object that has a generation or in a Pod template. An edit of
	// that still shows. It is only in caches.
	hashAnnotation = "cloudteam.ztgame.com/trimmed"
	hashSize       = 16
	// maxConfig is the most bytes of a NetworkAttachmentDefinition's configuration that are kept. What the controller
	// writes is less: it has the routes of a Network, which take more in that.
	maxConfig = controller.MaxKept
	// maxOwner is more bytes than the reference to an owner that exists can have.
	maxOwner = 1 << 10
	// maxLabels is the most bytes of labels that are kept of an object.
	maxLabels = 4 << 10
	// maxNamedPorts is the most ports with names that are kept of a Pod. The API server bounds each name.
	maxNamedPorts = 32
	// maxPercent is more bytes than a percentage needs. Kubernetes admits any number of zeros before it.
	maxPercent = 32
)

// trim removes from an object what no controller reads, before the object goes into a cache. Users can fill the rest:
// 256 KiB of annotations alone, on each of thousands of objects. A controller that reads another field of one of these
// kinds MUST keep it here. Lists that a controller writes back MUST stay whole, or show that they are not: see
// managed.TooManyFinalizers.
func trim(obj any) (any, error) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil //nolint:nilerr // a tombstone passes
	}
	object.SetManagedFields(nil)
	if kind, own := kinds.OfAny(obj); own {
		trimOwn(obj.(kinds.Object), kind)
		return obj, nil
	}
	switch object := obj.(type) {
	case *samplev1alpha1.Foo:
		trimMetadata(object, nil, false)
	case *metav1.PartialObjectMetadata: // of a Node, a VirtualMachine or its instance
		trimMetadata(object, metadataAnnotations, false)
	case *corev1.Namespace:
		// NetworkClasses and policies select namespaces by their labels. Tenants do not write them.
		labels := object.Labels
		trimMetadata(object, nil, false)
		object.Labels, object.Spec, object.Status = labels, corev1.NamespaceSpec{}, corev1.NamespaceStatus{}
	case *corev1.Service:
		var labels map[string]string
		var spec corev1.ServiceSpec
		asksEndpoints := consumer.AsksForEndpoints(object)
		if asksEndpoints {
			ports := object.Spec.Ports[:min(len(object.Spec.Ports), consumer.MaxEndpointsPorts+1)]
			labels, spec = trimLabels(object.Labels), corev1.ServiceSpec{
				ClusterIP: object.Spec.ClusterIP, IPFamilies: object.Spec.IPFamilies, Ports: slices.Clone(ports),
				PublishNotReadyAddresses: object.Spec.PublishNotReadyAddresses,
			}
		}
		if _, asks := object.Annotations[cloudteamv1.AnnotationFloatingIP]; asks || asksEndpoints {
			spec.Selector = trimSelector(object.Spec.Selector)
		}
		trimMetadata(object, serviceAnnotations, false)
		object.Labels, object.Spec, object.Status = labels, spec, corev1.ServiceStatus{}
	case *discoveryv1.EndpointSlice:
		// What somebody else wrote with our label is cut: it differs from what it is to be, and is written again.
		labels := object.Labels
		trimMetadata(object, nil, false)
		if object.Labels = trimLabels(labels); len(object.Labels) != len(labels) {
			object.Labels = map[string]string{ // by these it is found
				discoveryv1.LabelManagedBy:   consumer.EndpointsManagedBy,
				discoveryv1.LabelServiceName: labels[discoveryv1.LabelServiceName],
			}
		}
		object.Endpoints = slices.Clone(object.Endpoints[:min(len(object.Endpoints), consumer.MaxEndpointsPerSlice+1)])
		for i := range object.Endpoints {
			e := &object.Endpoints[i]
			e.Addresses = slices.Clone(e.Addresses[:min(len(e.Addresses), 2)])
		}
	case *appsv1.ReplicaSet:
		trimMetadata(object, nil, false)
		object.Spec, object.Status = appsv1.ReplicaSetSpec{}, appsv1.ReplicaSetStatus{}
	case *appsv1.StatefulSet:
		trimMetadata(object, statefulSetAnnotations, false)
		template := metav1.ObjectMeta{Labels: trimLabels(object.Spec.Template.Labels)}
		object.Spec = appsv1.StatefulSetSpec{
			Replicas: object.Spec.Replicas, Ordinals: object.Spec.Ordinals,
			Template: corev1.PodTemplateSpec{ObjectMeta: template},
		}
		object.Status = appsv1.StatefulSetStatus{}
	case *appsv1.Deployment:
		trimMetadata(object, nil, true)
		object.Spec = appsv1.DeploymentSpec{
			Replicas: object.Spec.Replicas, Strategy: object.Spec.Strategy, Template: trimTemplate(object.Spec.Template),
		}
		if rolling := object.Spec.Strategy.RollingUpdate; rolling != nil {
			rolling.MaxSurge, rolling.MaxUnavailable = trimPercent(rolling.MaxSurge), trimPercent(rolling.MaxUnavailable)
		}
	case *corev1.Pod:
		labels := trimLabels(object.Labels)
		trimMetadata(object, podAnnotations, false)
		var containers []corev1.Container
		hostname, subdomain := "", ""
		if consumer.UsesNetworks(object) {
			hostname, subdomain = object.Spec.Hostname, object.Spec.Subdomain
			object.Labels = labels
			if ports := namedPorts(object.Spec); len(ports) > 0 {
				containers = []corev1.Container{{Ports: ports}}
			}
		}
		var gates []corev1.PodSchedulingGate
		if consumer.Gated(object) {
			gates = []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}
		}
		object.Spec = corev1.PodSpec{
			NodeName: object.Spec.NodeName, HostNetwork: object.Spec.HostNetwork, SchedulingGates: gates,
			Containers: containers, Hostname: hostname, Subdomain: subdomain,
		}
		conditions := slices.DeleteFunc(object.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type != cloudteamv1.ConditionNetworksReady && (c.Type != corev1.PodReady || !consumer.UsesNetworks(object))
		})
		for i, c := range conditions {
			if c.Type == corev1.PodReady {
				conditions[i] = corev1.PodCondition{Type: c.Type, Status: c.Status}
			}
		}
		object.Status = corev1.PodStatus{Phase: object.Status.Phase, Conditions: slices.Clip(conditions)}
	case *unstructured.Unstructured:
		trimAttachment(object)
	}
	return obj, nil
}

// trimMetadata removes the labels, the finalizers, the annotations that are not kept, and the owners that are no
// controllers. Values are cut after the bytes that can be used, and one more, which shows that they are too long. With
// hash, an annotation shows changes of the labels and annotations that are removed.
func trimMetadata(object metav1.Object, kept annotations, hash bool) {
	all := object.GetAnnotations()
	if sum, once := all[hashAnnotation]; once && (len(object.GetLabels()) > 0 || len(sum) > hashSize) {
		delete(all, hashAnnotation) // a user's
	}
	removed := maps.Clone(all)
	maps.DeleteFunc(removed, func(key, _ string) bool { _, keep := kept[key]; return keep || key == hashAnnotation })
	left := map[string]string{}
	for key, value := range all {
		most, keep := kept[key]
		switch {
		case !keep && key != hashAnnotation:
			continue
		case keep && len(value) > most:
			value = strings.Clone(value[:most+1]) // the clone frees the rest
		}
		left[key] = value
	}
	if hash && len(removed)+len(object.GetLabels()) > 0 {
		left[hashAnnotation] = sumOf([]map[string]string{removed, object.GetLabels()})
	}
	if len(left) == 0 {
		left = nil
	}
	object.SetAnnotations(left)
	object.SetLabels(nil)
	object.SetFinalizers(nil)
	object.SetOwnerReferences(controllersOf(object))
}

// controllersOf gives the owner that controls an object. Kubernetes does not limit its name. One that is too long does
// not exist, and is as none.
func controllersOf(object metav1.Object) []metav1.OwnerReference {
	owner := metav1.GetControllerOf(object)
	if owner == nil || len(owner.APIVersion)+len(owner.Kind)+len(owner.Name)+len(owner.UID) > maxOwner {
		return nil
	}
	return []metav1.OwnerReference{*owner}
}

// trims says what is kept of the objects of one kind in Neutron.
type trims struct {
	// annotations are those beside ownAnnotations.
	annotations annotations
	// labels reports whether the labels are kept, too.
	labels bool
	// less takes from a large object one part after another, see keepPart.
	less []func(kinds.Object)
}

// trimsFor gives trims for objects of the type T.
func trimsFor[T kinds.Object](more annotations, labels bool, less ...func(T)) trims {
	t := trims{annotations: maps.Clone(ownAnnotations), labels: labels}
	maps.Copy(t.annotations, more)
	for _, take := range less {
		t.less = append(t.less, func(obj kinds.Object) { take(obj.(T)) })
	}
	return t
}

// trimOwn trims an object whose resources are in Neutron. It keeps its finalizers.
func trimOwn(own kinds.Object, kind kinds.Kind) {
	by := trimsOf[kind.Name]
	finalizers, labels := trimFinalizers(own.GetFinalizers()), map[string]string(nil)
	if by.labels {
		labels = trimLabels(own.GetLabels())
		own.SetLabels(nil) // the hash is of what is removed
	}
	trimMetadata(own, by.annotations, true)
	own.SetFinalizers(finalizers)
	own.SetLabels(labels)
	controller.LimitStatus(kind.Status(own))
	keepPart(own, by.less)
}

// keepPart takes from an object that is larger than controller.MaxKept one part after another until it is not, and
// marks it. Then its controller changes nothing for it; see controller.TooLarge. What is left MUST be enough to find,
// keep and delete what the object has in Neutron, and what others read of it to count it or to wait for it.
func keepPart(object kinds.Object, less []func(kinds.Object)) {
	for _, take := range less {
		if deepSize(object) <= controller.MaxKept {
			return
		}
		take(object)
		all := maps.Clone(object.GetAnnotations())
		if all == nil {
			all = map[string]string{}
		}
		all[controller.AnnotationTooLarge] = ""
		object.SetAnnotations(all)
	}
}

// trimFinalizers leaves of more finalizers than controllers handle only ours, and that they are too many.
func trimFinalizers(all []string) []string {
	size := 0
	for _, f := range all {
		size += len(f)
	}
	if len(all) <= managed.MaxFinalizers && size <= managed.MaxFinalizersSize {
		return all
	}
	left := []string{managed.TooManyFinalizers}
	for _, kind := range kinds.All {
		if slices.Contains(all, kind.Finalizer) {
			left = append(left, kind.Finalizer)
		}
	}
	return left
}

// trimLabels keeps the labels of what MultiNetworkPolicies select. Kubernetes limits each label, but not how many there
// are: of more than anybody needs, only that they are too many is left.
func trimLabels(all map[string]string) map[string]string {
	size := 0
	for key, value := range all {
		size += len(key) + len(value)
	}
	if size > maxLabels {
		return map[string]string{netpolicy.TooManyLabels: ""}
	}
	return all
}

// trimSelector keeps the selector of a Service, and of one with more labels than anybody needs only that they are too
// many. Such a Service selects no Pod.
func trimSelector(all map[string]string) map[string]string {
	if len(all) > servicecontroller.MaxSelector {
		return map[string]string{servicecontroller.TooManyLabels: ""}
	}
	return all
}

// trimPercent drops a percentage of many zeros.
func trimPercent(value *intstr.IntOrString) *intstr.IntOrString {
	if value != nil && len(value.StrVal) > maxPercent {
		return nil
	}
	return value
}

// namedPorts gives the ports with names of a Pod's containers that run for as long as it does, which policies name. The
// texts do not keep the rest of the object.
func namedPorts(spec corev1.PodSpec) (named []corev1.ContainerPort) {
	add := func(ports []corev1.ContainerPort) {
		for _, port := range ports {
			if port.Name != "" && len(named) < maxNamedPorts {
				named = append(named, corev1.ContainerPort{
					Name: strings.Clone(port.Name), Protocol: port.Protocol, ContainerPort: port.ContainerPort,
				})
			}
		}
	}
	for i := range spec.Containers {
		add(spec.Containers[i].Ports)
	}
	for i := range spec.InitContainers {
		sidecar := spec.InitContainers[i].RestartPolicy
		if sidecar != nil && *sidecar == corev1.ContainerRestartPolicyAlways {
			add(spec.InitContainers[i].Ports)
		}
	}
	return slices.Clip(named)
}

// trimTemplate keeps of a Deployment's Pod template what it declares, and its hash. A template without containers,
// which the API server refuses, was trimmed before.
func trimTemplate(template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	if len(template.Spec.Containers) == 0 {
		return template
	}
	trimmed := corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: template.Spec.HostNetwork}}
	trimmed.Annotations = maps.Clone(template.Annotations)
	trimMetadata(&trimmed.ObjectMeta, templateAnnotations, false)
	trimmed.Labels = trimLabels(template.Labels)
	if trimmed.Annotations == nil {
		trimmed.Annotations = map[string]string{}
	}
	trimmed.Annotations[hashAnnotation] = sumOf(template)
	return trimmed
}

// trimAttachment keeps of a NetworkAttachmentDefinition its name, and what the controller writes.
func trimAttachment(attachment *unstructured.Unstructured) {
	config, found, _ := unstructured.NestedString(attachment.Object, "spec", "config")
	manager, managed := attachment.GetLabels()[attachmentcontroller.LabelManagedBy]
	trimMetadata(attachment, nil, false)
	metadata := attachment.Object["metadata"]
	clear(attachment.Object)
	if metadata != nil {
		attachment.Object["metadata"] = metadata
	}
	if managed {
		attachment.SetLabels(map[string]string{attachmentcontroller.LabelManagedBy: manager})
	}
	if found && metav1.GetControllerOfNoCopy(attachment) != nil {
		if len(config) > maxConfig {
			config = strings.Clone(config[:maxConfig])
		}
		attachment.Object["spec"] = map[string]any{"config": config}
	}
}

// sumOf hashes a value by its JSON form, in which keys are sorted.
func sumOf(value any) string {
	sum := fnv.New64a()
	text, _ := json.Marshal(value) // maps of strings and API types never fail to marshal
	_, _ = sum.Write(text)
	return strconv.FormatUint(sum.Sum64(), 16)
}

var timeType = reflect.TypeFor[time.Time]()

// deepSize is about how many bytes a value takes, with all that it leads to. What two pointers lead to counts twice: a
// decoder shares nothing.
func deepSize(value any) int {
	v := reflect.ValueOf(value)
	return int(v.Type().Size()) + reached(v)
}

// mapEntry is what a map takes for an entry beside its key and value.
const mapEntry = 16

// reached is how many bytes a value leads to, beside its own.
func reached(v reflect.Value) (size int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			size = int(v.Elem().Type().Size()) + reached(v.Elem())
		}
	case reflect.Slice:
		size = (v.Cap() - v.Len()) * int(v.Type().Elem().Size())
		for i := range v.Len() {
			size += int(v.Type().Elem().Size()) + reached(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			size += reached(v.Index(i))
		}
	case reflect.Map:
		each := int(v.Type().Key().Size()+v.Type().Elem().Size()) + mapEntry
		for entries := v.MapRange(); entries.Next(); {
			size += each + reached(entries.Key()) + reached(entries.Value())
		}
	case reflect.Struct:
		if v.Type() == timeType {
			return 0 // its location is shared
		}
		for _, field := range v.Fields() {
			size += reached(field)
		}
	}
	return size
}
