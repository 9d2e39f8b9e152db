package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// pace is how long the cluster's controllers take from one change to the next.
const pace = 20 * time.Millisecond

// runCluster plays the controllers of a control plane and its one node, after each change.
func (a *APIServer) runCluster() {
	for seen := -1; ; {
		a.mu.Lock()
		changed := a.changed // also by what follows
		a.collectGarbage()
		a.emptyNamespaces()
		if now := a.changesOfWorkloads(); now != seen {
			seen = now
			a.deploy()
			a.replicate()
			a.number()
			a.runPods()
		}
		a.mu.Unlock()
		select {
		case <-a.stopped:
			return
		case <-changed:
		}
		select {
		case <-a.stopped:
			return
		case <-time.After(pace):
		}
	}
}

// changesOfWorkloads counts those that the controllers of workloads and the node follow.
func (a *APIServer) changesOfWorkloads() (n int) {
	for _, resource := range []string{"deployments", "replicasets", "statefulsets", "pods", "namespaces"} {
		n += len(a.of(resource).changes)
	}
	return n
}

// typed is a stored object as its type. Stored objects are replaced, and not changed.
type typed struct {
	of   *object
	read any
}

// all reads the objects of a resource into typed ones, oldest first. Copy what you change.
func all[T any](a *APIServer, resource string) (list []*T) {
	k := a.of(resource)
	for _, obj := range a.sorted(k) {
		known := k.typed[key(obj)]
		if known.of != obj {
			read := new(T)
			if err := json.Unmarshal([]byte(jsonOf(obj.Object)), read); err != nil {
				panic(err) // the client wrote it from the same type
			}
			known = typed{obj, read}
			k.typed[key(obj)] = known
		}
		list = append(list, known.read.(*T))
	}
	return list
}

// put stores a typed object, new where it has no UID.
func (a *APIServer) put(resource string, changed metav1.Object) {
	k := a.of(resource)
	if known, ok := k.typed[types.NamespacedName{Namespace: changed.GetNamespace(), Name: changed.GetName()}]; ok &&
		known.of == k.objects[key(known.of)] && equality.Semantic.DeepEqual(known.read, changed) {
		return
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(changed)
	if err != nil {
		panic(err) // it is a type of the API
	}
	obj := &object{Object: content}
	if obj.GetUID() == "" {
		if _, err := a.create(k, obj); err != nil {
			return // its name is taken for a while
		}
		return
	}
	if was := k.objects[key(obj)]; was != nil && was.GetUID() == obj.GetUID() {
		obj.SetGroupVersionKind(k.gvk())
		a.update(k, was, obj)
	}
}

// remove deletes an object as its controller does.
func (a *APIServer) remove(resource string, obj metav1.Object, options metav1.DeleteOptions) {
	k := a.of(resource)
	was := k.objects[types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}]
	if was != nil && was.GetUID() == obj.GetUID() {
		a.delete(k, was, &options)
	}
}

// collectGarbage deletes what all owners of are gone. An owner in another namespace is none.
func (a *APIServer) collectGarbage() {
	type place struct {
		owner     types.UID
		namespace string
	}
	there := map[place]bool{}
	for _, k := range a.kinds {
		for _, obj := range k.objects {
			there[place{obj.GetUID(), obj.GetNamespace()}] = true
		}
	}
	for _, k := range a.kinds {
		for _, obj := range maps.Clone(k.objects) {
			owners := obj.GetOwnerReferences()
			if len(owners) > 0 && obj.GetDeletionTimestamp() == nil &&
				!slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool {
					return there[place{o.UID, obj.GetNamespace()}] || there[place{owner: o.UID}]
				}) {
				a.delete(k, obj, &metav1.DeleteOptions{})
			}
		}
	}
}

// emptyNamespaces deletes what is in namespaces that are being deleted, and then the namespaces.
func (a *APIServer) emptyNamespaces() {
	namespaces := a.of("namespaces")
	for _, namespace := range maps.Clone(namespaces.objects) {
		if namespace.GetDeletionTimestamp() == nil {
			continue
		}
		for _, k := range a.kinds {
			for _, obj := range maps.Clone(k.objects) {
				if k.namespaced && obj.GetNamespace() == namespace.GetName() && obj.GetDeletionTimestamp() == nil {
					a.delete(k, obj, &metav1.DeleteOptions{})
				}
			}
		}
		a.update(namespaces, namespace, namespace)
	}
}

// adopted gives copies of the live objects that a controller owns; orphans of its labels become its own.
func adopted[T any, O interface {
	*T
	metav1.Object
	DeepCopy() *T
}](
	a *APIServer, resource string, owner metav1.Object, kind schema.GroupVersionKind, selector *metav1.LabelSelector,
) (owned []O) {
	matches, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	for _, read := range all[T](a, resource) {
		obj := O(read)
		if obj.GetNamespace() != owner.GetNamespace() {
			continue
		}
		by := metav1.GetControllerOf(obj)
		if by == nil && owner.GetDeletionTimestamp() == nil && obj.GetDeletionTimestamp() == nil && selector != nil &&
			matches.Matches(labels.Set(obj.GetLabels())) {
			obj = obj.DeepCopy()
			obj.SetOwnerReferences(append(obj.GetOwnerReferences(), *metav1.NewControllerRef(owner, kind)))
			a.put(resource, obj)
			by = metav1.GetControllerOf(obj)
		}
		if by != nil && by.UID == owner.GetUID() {
			owned = append(owned, obj.DeepCopy())
		}
	}
	return owned
}

func hashOf(template corev1.PodTemplateSpec) string {
	hash := fnv.New32a()
	fmt.Fprint(hash, jsonOf(template))
	return fmt.Sprintf("%08x", hash.Sum32())
}

const hashLabel = appsv1.DefaultDeploymentUniqueLabelKey

// deploy plays the controller of Deployments: rolling updates with a surge of a quarter and nothing unavailable, or all
// again.
func (a *APIServer) deploy() {
	for _, d := range all[appsv1.Deployment](a, "deployments") {
		if d.DeletionTimestamp != nil {
			continue
		}
		d = d.DeepCopy()
		hash := hashOf(d.Spec.Template)
		var current *appsv1.ReplicaSet
		var older []*appsv1.ReplicaSet
		var total, available, ready int32
		for _, rs := range adopted[appsv1.ReplicaSet](a, "replicasets", d,
			appsv1.SchemeGroupVersion.WithKind("Deployment"), d.Spec.Selector) {
			total += max(*rs.Spec.Replicas, rs.Status.Replicas)
			available, ready = available+rs.Status.AvailableReplicas, ready+rs.Status.ReadyReplicas
			if rs.Labels[hashLabel] == hash {
				current = rs
			} else {
				older = append(older, rs)
			}
		}
		want := int32(1)
		if d.Spec.Replicas != nil {
			want = *d.Spec.Replicas
		}
		recreate := d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
		if current == nil {
			current = newReplicaSet(d, hash)
			a.put("replicasets", current)
			a.statusOf(d, nil, older, want, ready, available)
			continue
		}
		surge := (want + 3) / 4
		switch is := *current.Spec.Replicas; {
		case is > want:
			a.resize(current, want)
		case is < want && recreate && total > is:
			// The old ones end first.
		case is < want && recreate:
			a.resize(current, want)
		case is < want && total < want+surge:
			a.resize(current, min(want, is+want+surge-total))
		}
		for _, rs := range older {
			switch spare := available - want; {
			case *rs.Spec.Replicas == 0:
			case recreate:
				a.resize(rs, 0)
			case rs.Status.AvailableReplicas < *rs.Spec.Replicas:
				available -= min(0, spare)
				a.resize(rs, rs.Status.AvailableReplicas)
			case spare > 0:
				available -= min(spare, *rs.Spec.Replicas)
				a.resize(rs, max(0, *rs.Spec.Replicas-spare))
			}
		}
		a.statusOf(d, current, older, want, ready, available)
	}
}

func newReplicaSet(d *appsv1.Deployment, hash string) *appsv1.ReplicaSet {
	template := *d.Spec.Template.DeepCopy()
	template.Labels = maps.Clone(template.Labels)
	template.Labels[hashLabel] = hash
	selector := d.Spec.Selector.DeepCopy()
	selector.MatchLabels[hashLabel] = hash
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name + "-" + hash, Labels: template.Labels,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment")),
			},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0)), Selector: selector, Template: template},
	}
}

func (a *APIServer) resize(rs *appsv1.ReplicaSet, replicas int32) {
	rs.Spec.Replicas = &replicas
	a.put("replicasets", rs)
}

func (a *APIServer) statusOf(
	d *appsv1.Deployment, current *appsv1.ReplicaSet, older []*appsv1.ReplicaSet, want, ready, available int32,
) {
	status := &d.Status
	status.ObservedGeneration, status.ReadyReplicas, status.AvailableReplicas = d.Generation, ready, available
	status.Replicas, status.UpdatedReplicas = 0, 0
	if current != nil {
		status.UpdatedReplicas = current.Status.Replicas
	}
	for _, rs := range append(older, current) {
		if rs != nil {
			status.Replicas += rs.Status.Replicas
		}
	}
	status.UnavailableReplicas = max(0, want-available)
	a.put("deployments", d)
}

// replicate plays the controller of ReplicaSets.
func (a *APIServer) replicate() {
	for _, rs := range all[appsv1.ReplicaSet](a, "replicasets") {
		if rs.DeletionTimestamp != nil {
			continue
		}
		rs = rs.DeepCopy()
		var live []*corev1.Pod
		kind := appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
		for _, pod := range adopted[corev1.Pod](a, "pods", rs, kind, rs.Spec.Selector) {
			if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
				live = append(live, pod)
			}
		}
		for n := len(live); n < int(*rs.Spec.Replicas); n++ {
			a.put("pods", podOf(rs.Namespace, "", rs.Name+"-", rs.Spec.Template, metav1.NewControllerRef(rs, kind)))
		}
		if spare := len(live) - int(*rs.Spec.Replicas); spare > 0 {
			// Those that do not run yet go first, and then the youngest.
			slices.SortStableFunc(live, func(x, y *corev1.Pod) int {
				return cmp.Or(running(x)-running(y), y.CreationTimestamp.Compare(x.CreationTimestamp.Time))
			})
			for _, pod := range live[:spare] {
				a.remove("pods", pod, metav1.DeleteOptions{})
			}
			live = live[spare:]
		}
		ready := int32(0)
		for _, pod := range live {
			ready += int32(running(pod))
		}
		s := &rs.Status
		s.Replicas, s.ReadyReplicas, s.AvailableReplicas = int32(len(live)), ready, ready
		s.ObservedGeneration = rs.Generation
		a.put("replicasets", rs)
	}
}

func running(pod *corev1.Pod) int {
	if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
		return 1
	}
	return 0
}

func podOf(namespace, name, prefix string, template corev1.PodTemplateSpec, owner *metav1.OwnerReference) *corev1.Pod {
	meta := *template.ObjectMeta.DeepCopy()
	meta.Namespace, meta.Name, meta.GenerateName = namespace, name, prefix
	meta.OwnerReferences = []metav1.OwnerReference{*owner}
	return &corev1.Pod{ObjectMeta: meta, Spec: *template.Spec.DeepCopy()}
}

// number plays the controller of StatefulSets: Pods with ordinals, which come back under their names.
func (a *APIServer) number() {
	for _, set := range all[appsv1.StatefulSet](a, "statefulsets") {
		if set.DeletionTimestamp != nil {
			continue
		}
		set = set.DeepCopy()
		kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
		byName := map[string]*corev1.Pod{}
		for _, pod := range adopted[corev1.Pod](a, "pods", set, kind, set.Spec.Selector) {
			byName[pod.Name] = pod
		}
		want, ready := int(*set.Spec.Replicas), int32(0)
		for n := range want {
			name := fmt.Sprintf("%s-%d", set.Name, n)
			pod := byName[name]
			delete(byName, name)
			if pod == nil {
				pod = podOf(set.Namespace, name, "", set.Spec.Template, metav1.NewControllerRef(set, kind))
				if pod.Labels == nil {
					pod.Labels = map[string]string{}
				}
				pod.Labels[appsv1.StatefulSetPodNameLabel] = name
				pod.Labels[appsv1.PodIndexLabel] = fmt.Sprint(n)
				pod.Spec.Hostname, pod.Spec.Subdomain = name, set.Spec.ServiceName
				a.put("pods", pod)
			}
			ready += int32(running(pod))
			if running(pod) == 0 && set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
				break
			}
		}
		for _, pod := range byName {
			if pod.DeletionTimestamp == nil {
				a.remove("pods", pod, metav1.DeleteOptions{})
			}
		}
		s := &set.Status
		s.Replicas, s.ReadyReplicas, s.AvailableReplicas = ready, ready, ready
		s.CurrentReplicas, s.UpdatedReplicas, s.ObservedGeneration = ready, ready, set.Generation
		a.put("statefulsets", set)
	}
}

// runPods plays the scheduler and the node: a Pod without gates runs at once, and one that is deleted ends. It leaves
// alone what another scheduler is to schedule.
func (a *APIServer) runPods() {
	for _, pod := range all[corev1.Pod](a, "pods") {
		switch {
		case pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil:
			a.remove("pods", pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		case pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 || pod.Status.Phase != corev1.PodPending:
		case pod.Spec.SchedulerName != "" && pod.Spec.SchedulerName != corev1.DefaultSchedulerName:
		case pod.Spec.NodeName == "":
			pod = pod.DeepCopy()
			pod.Spec.NodeName = "node"
			a.put("pods", pod)
		default:
			pod = pod.DeepCopy()
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = append(slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady
			}), corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now()})
			a.put("pods", pod)
		}
	}
}
