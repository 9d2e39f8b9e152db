package adversary

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/lanes"
)

// Few enough that they meet.
var (
	networkNames    = []string{"net", "aux"}
	deploymentNames = []string{"web", "api"}
	podNames        = []string{"lone", "alone"}
	portNames       = []string{"p", "q"}
)

// steps are all that may happen, each drawn as often as another.
func (s *sequence) steps() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"declare a network":           s.declareNetwork,
		"declare a network, again":    s.declareNetwork,
		"declare a deployment":        s.declareDeployment,
		"declare a deployment, again": s.declareDeployment,
		"declare a deployment, anew":  s.declareDeployment,
		"create a pod":                s.createPod,
		"create a port":               s.createPort,
		"delete a network":            s.deleteNetwork,
		"delete a deployment":         s.deleteDeployment,
		"delete a pod":                s.deletePod,
		"delete a port":               s.deletePort,
		"forge a replica set":         s.forgeReplicaSet,
		"forge a pod":                 s.forgePod,
		"forge a port":                s.forgePort,
		"forge metadata":              s.forgeMetadata,
		"change a secret":             s.changeSecret,
		"delete a namespace":          s.deleteNamespace,
		"open a namespace":            s.openNamespace,
		"label a namespace":           s.labelNamespace,
		"wait":                        s.settle,
		"":                            func(t *rapid.T) { s.hold(t, s.look(t)) },
	}
}

// who draws a tenant.
func (s *sequence) who(t *rapid.T) *tenant { return s.one(rapid.SampledFrom(homes).Draw(t, "who")) }

// one is the tenant of a home.
func (s *sequence) one(home string) *tenant { return s.tenants[slices.Index(homes, home)] }

// String is what logs show of a tenant in a sequence.
func (who *tenant) String() string { return who.home() }

// home is the tenant's in homes.
func (who *tenant) home() string { return who.name[len(who.name)-1:] }

// met is what the sequences of all lanes came across.
var met lanes.Tally

// took logs and counts a step. What it met may have gone, or be there already, or it may be forbidden.
func took(t *rapid.T, err error, format string, values ...any) bool {
	t.Helper()
	met.Count(strings.TrimRight(fmt.Sprintf("%s: %s", format, apierrors.ReasonForError(err)), ": "))
	what := fmt.Sprintf(format, values...)
	switch {
	case err == nil:
		t.Log(what)
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsForbidden(err):
		t.Logf("%s: %s", what, apierrors.ReasonForError(err))
	default:
		t.Fatalf("%s: %v", what, err)
	}
	return err == nil
}

// network draws the name of a Network as a Pod of a tenant declares it.
func (s *sequence) network(t *rapid.T, who *tenant) string {
	owner := who
	if rapid.IntRange(0, 2).Draw(t, "of another") == 2 {
		owner = s.who(t)
	}
	return owner.name + "/" + rapid.SampledFrom(networkNames).Draw(t, "network")
}

// declared draws what a Pod declares.
func (s *sequence) declared(t *rapid.T, who *tenant) string {
	var names []string
	for range rapid.IntRange(1, 2).Draw(t, "networks") {
		names = append(names, s.network(t, who))
	}
	return strings.Join(names, ",")
}

// plain is a text with homes in the place of namespaces.
func (s *sequence) plain(text string) string {
	for _, who := range s.tenants {
		text = strings.ReplaceAll(text, who.name, who.home())
	}
	return text
}

func (s *sequence) declareNetwork(t *rapid.T) {
	who, name := s.who(t), rapid.SampledFrom(networkNames).Draw(t, "name")
	allowed := rapid.SampledFrom([][]string{
		nil, {"*"}, {s.tenants[0].name}, {s.tenants[1].name, s.tenants[2].name},
	}).Draw(t, "allowed")
	inCloud := rapid.IntRange(0, 3).Draw(t, "in a cloud") == 3
	networks := who.networks.CloudteamV1().Networks(who.name)
	forWhom := s.plain(fmt.Sprint(allowed))
	was, err := networks.Get(s.ctx, name, metav1.GetOptions{})
	if err == nil {
		was.Spec.AllowedNamespaces = allowed
		_, err = networks.Update(s.ctx, was, metav1.UpdateOptions{})
		took(t, err, "%s declares Network %s again, for %s", who, name, forWhom)
		return
	}
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.CIDR, n.Spec.AllowedNamespaces = "10.9.0.0/26", allowed
	if inCloud {
		n.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: secretName}
	}
	_, err = networks.Create(s.ctx, n, metav1.CreateOptions{})
	took(t, err, "%s declares Network %s, for %s, in a cloud of its own: %t", who, name, forWhom, inCloud)
}

func (s *sequence) deleteNetwork(t *rapid.T) {
	who, name := s.who(t), rapid.SampledFrom(networkNames).Draw(t, "name")
	err := who.networks.CloudteamV1().Networks(who.name).Delete(s.ctx, name, metav1.DeleteOptions{})
	took(t, err, "%s deletes Network %s", who, name)
}

// podOn is a Pod of a tenant. It ends at once, so that its namespace can.
func podOn(name, declares string) *corev1.Pod {
	pod := harness.PodOn(name, declares)
	pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	return pod
}

func (s *sequence) declareDeployment(t *rapid.T) {
	who, name := s.who(t), rapid.SampledFrom(deploymentNames).Draw(t, "name")
	replicas := rapid.Int32Range(0, 3).Draw(t, "replicas")
	edits := rapid.Bool().Draw(t, "other networks")
	declares := s.declared(t, who)
	deployments := who.kube.AppsV1().Deployments(who.name)
	was, err := deployments.Get(s.ctx, name, metav1.GetOptions{})
	if err == nil {
		was.Spec.Replicas = &replicas
		if edits {
			was.Spec.Template.Annotations[selection.Annotation] = declares
		}
		_, err = deployments.Update(s.ctx, was, metav1.UpdateOptions{})
		took(t, err, "%s declares Deployment %s again: %d on %s", who, name, replicas,
			s.plain(was.Spec.Template.Annotations[selection.Annotation]))
		return
	}
	labels, pod := map[string]string{"app": name}, podOn("", declares)
	pod.Labels = labels
	_, err = deployments.Create(s.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	took(t, err, "%s declares Deployment %s: %d on %s", who, name, replicas, s.plain(declares))
}

func (s *sequence) deleteDeployment(t *rapid.T) {
	who, name := s.who(t), rapid.SampledFrom(deploymentNames).Draw(t, "name")
	how := rapid.SampledFrom([]metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	}).Draw(t, "how")
	err := who.kube.AppsV1().Deployments(who.name).Delete(s.ctx, name, metav1.DeleteOptions{PropagationPolicy: &how})
	took(t, err, "%s deletes Deployment %s (%s)", who, name, how)
}

func (s *sequence) createPod(t *rapid.T) {
	who, name := s.who(t), rapid.SampledFrom(podNames).Draw(t, "name")
	declares := s.declared(t, who)
	_, err := who.kube.CoreV1().Pods(who.name).Create(s.ctx, podOn(name, declares), metav1.CreateOptions{})
	took(t, err, "%s creates Pod %s on %s", who, name, s.plain(declares))
}

// pick draws one of some objects.
func pick[T any](t *rapid.T, of []T) (*T, bool) {
	which := rapid.IntRange(0, 11).Draw(t, "which")
	if len(of) == 0 {
		return nil, false
	}
	return &of[which%len(of)], true
}

func (s *sequence) deletePod(t *rapid.T) {
	who := s.who(t)
	pod, ok := pick(t, s.look(t)[who.name].pods)
	if !ok {
		return
	}
	err := who.kube.CoreV1().Pods(who.name).Delete(s.ctx, pod.Name, metav1.DeleteOptions{})
	took(t, err, "%s deletes Pod %s", who, pod.Name)
}

// portOn is a NetworkPort on a Network of any tenant.
func (s *sequence) portOn(t *rapid.T, who *tenant, name string) *cloudteamv1.NetworkPort {
	port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Name: name}}
	port.Spec.NetworkNamespace, port.Spec.NetworkName, _ = strings.Cut(s.network(t, who), "/")
	return port
}

func (s *sequence) createPort(t *rapid.T) {
	who, name := s.who(t), rapid.SampledFrom(portNames).Draw(t, "name")
	port := s.portOn(t, who, name)
	_, err := who.networks.CloudteamV1().NetworkPorts(who.name).Create(s.ctx, port, metav1.CreateOptions{})
	took(t, err, "%s creates NetworkPort %s on %s", who, name, s.plain(port.Network().String()))
}

func (s *sequence) deletePort(t *rapid.T) {
	who := s.who(t)
	port, ok := pick(t, s.look(t)[who.name].ports)
	if !ok {
		return
	}
	err := who.networks.CloudteamV1().NetworkPorts(who.name).Delete(s.ctx, port.Name, metav1.DeleteOptions{})
	took(t, err, "%s deletes NetworkPort %s", who, port.Name)
}

// controlledBy is a reference as a tenant may write it.
func controlledBy(kind schema.GroupVersionKind, object metav1.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(object, kind)}
}

// victim draws another tenant than this one.
func (s *sequence) victim(t *rapid.T, who *tenant) *tenant {
	others := slices.DeleteFunc(slices.Clone(homes), func(other string) bool { return other == who.home() })
	return s.one(rapid.SampledFrom(others).Draw(t, "whose"))
}

// forgeReplicaSet makes a ReplicaSet of another's Deployment, and a Pod of it that waits before the Deployment's own. The
// garbage collector deletes the ReplicaSet; a finalizer keeps it.
func (s *sequence) forgeReplicaSet(t *rapid.T) {
	who := s.who(t)
	victim := s.victim(t, who)
	deployment, ok := pick(t, s.look(t)[victim.name].deployments)
	if !ok {
		return
	}
	declares := deployment.Spec.Template.Annotations[selection.Annotation]
	labels, pod := map[string]string{"app": "forged"}, podOn("", declares)
	pod.Labels = labels
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "forged-", Finalizers: []string{"tenant.example.com/stay"},
			OwnerReferences: controlledBy(appsv1.SchemeGroupVersion.WithKind("Deployment"), deployment),
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		},
	}
	made, err := who.kube.AppsV1().ReplicaSets(who.name).Create(s.ctx, set, metav1.CreateOptions{})
	if took(t, err, "%s creates a ReplicaSet of %s's Deployment %s", who, victim, deployment.Name) {
		pod.OwnerReferences = controlledBy(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), made)
		s.createForged(t, who, pod, "of it")
	}
}

// createForged creates a Pod that is to get nothing.
func (s *sequence) createForged(t *rapid.T, who *tenant, pod *corev1.Pod, what string) {
	t.Helper()
	pod.GenerateName = "forged-"
	made, err := who.kube.CoreV1().Pods(who.name).Create(s.ctx, pod, metav1.CreateOptions{})
	if took(t, err, "%s creates a Pod %s", who, what) {
		s.forged[made.UID] = true
	}
}

// forgePod makes a Pod of another's ReplicaSet, or with another's allocation, which only namespaces that are not labelled
// take.
func (s *sequence) forgePod(t *rapid.T) {
	who := s.who(t)
	victim, ofSet := s.victim(t, who), rapid.Bool().Draw(t, "of a replica set")
	there := s.look(t)[victim.name]
	set, sets := pick(t, there.sets)
	allocated, pods := pick(t, there.pods)
	switch {
	case ofSet && sets:
		pod := podOn("", set.Spec.Template.Annotations[selection.Annotation])
		pod.OwnerReferences = controlledBy(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), set)
		s.createForged(t, who, pod, fmt.Sprintf("of %s's ReplicaSet", victim))
	case !ofSet && pods:
		pod := podOn("", "")
		pod.Annotations = allocated.Annotations
		if pod.Annotations[cloudteamv1.AnnotationAllocations] != "" {
			s.createForged(t, who, pod, fmt.Sprintf("with the annotations of %s's Pod", victim))
		}
	}
}

// forgePort makes a NetworkPort of another's Deployment or Pod that looks like one of the controller's.
func (s *sequence) forgePort(t *rapid.T) {
	who := s.who(t)
	victim, of := s.victim(t, who), rapid.IntRange(0, 2).Draw(t, "of what")
	port := s.portOn(t, who, "forged")
	there := s.look(t)[victim.name]
	deployment, deployments := pick(t, there.deployments)
	pod, pods := pick(t, there.pods)
	port.Annotations = map[string]string{consumer.AnnotationMadeFor: "Deployment/" + deploymentNames[0]}
	what := "nothing"
	switch {
	case of == 0 && deployments:
		port.OwnerReferences = controlledBy(appsv1.SchemeGroupVersion.WithKind("Deployment"), deployment)
		what = fmt.Sprintf("%s's Deployment %s", victim, deployment.Name)
	case of == 1 && pods:
		port.OwnerReferences = controlledBy(corev1.SchemeGroupVersion.WithKind("Pod"), pod)
		what = fmt.Sprintf("%s's Pod %s", victim, pod.Name)
	}
	if rapid.Bool().Draw(t, "with a finalizer") {
		port.Finalizers = []string{cloudteamv1.PortFinalizer}
		what += ", with a finalizer"
	}
	_, err := who.networks.CloudteamV1().NetworkPorts(who.name).Create(s.ctx, port, metav1.CreateOptions{})
	took(t, err, "%s creates a NetworkPort on %s, of %s", who, s.plain(port.Network().String()), what)
}

// forgeMetadata has a tenant write what the controller keeps on the tenant's own objects.
func (s *sequence) forgeMetadata(t *rapid.T) {
	who := s.who(t)
	here := s.look(t)[who.name]
	patch := rapid.SampledFrom([]map[string]any{
		{"finalizers": nil},
		{"annotations": map[string]any{cloudteamv1.AnnotationCloud: nil, cloudteamv1.AnnotationTakeBack: nil}},
		{"annotations": map[string]any{cloudteamv1.AnnotationCloud: "{", cloudteamv1.AnnotationTakeBack: "["}},
		{"annotations": map[string]any{cloudteamv1.AnnotationCloud: `{"endpoint":"http://other/v2.0","projectID":"other"}`}},
		{"annotations": map[string]any{consumer.AnnotationMadeFor: "Pod/" + podNames[0]}},
		{"annotations": map[string]any{consumer.AnnotationMadeFor: nil}},
	}).Draw(t, "patch")
	text, err := json.Marshal(map[string]any{"metadata": patch})
	expect.NoError(t, err)
	ofPort := rapid.Bool().Draw(t, "of a port")
	network, networks := pick(t, here.networks)
	port, ports := pick(t, here.ports)
	ours := who.networks.CloudteamV1()
	_, strips := patch["finalizers"]
	switch {
	case ofPort && ports && (!strips || !s.inCloud(t, port)):
		_, err = ours.NetworkPorts(who.name).Patch(s.ctx, port.Name, types.MergePatchType, text, metav1.PatchOptions{})
		took(t, err, "%s writes on NetworkPort %s: %s", who, port.Name, text)
	case !ofPort && networks && (!strips || network.Spec.Cloud == nil):
		_, err = ours.Networks(who.name).Patch(s.ctx, network.Name, types.MergePatchType, text, metav1.PatchOptions{})
		took(t, err, "%s writes on Network %s: %s", who, network.Name, text)
	}
}

// inCloud reports whether a port may be in a cloud of a namespace's own. An orphan there is found as long as a Network
// names that cloud.
func (s *sequence) inCloud(t *rapid.T, port *cloudteamv1.NetworkPort) bool {
	if port.Status.Cloud != nil && port.Status.Cloud.ProjectID != s.cloud.Project {
		return true
	}
	n, err := s.Networks.CloudteamV1().Networks(port.Network().Namespace).
		Get(s.ctx, port.Network().Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false
	}
	expect.NoError(t, err)
	return n.Spec.Cloud != nil
}

// changeSecret has a tenant write the Secret with its credentials: right ones, nonsense, or none. Those of another project
// would have its Networks in two projects, which no Secret can delete.
func (s *sequence) changeSecret(t *rapid.T) {
	who := s.who(t)
	leads := rapid.SampledFrom([]string{otherCloud, otherCloud, "nowhere", ""}).Draw(t, "leads to")
	if leads == "" {
		err := who.kube.CoreV1().Secrets(who.name).Delete(s.ctx, secretName, metav1.DeleteOptions{})
		took(t, err, "%s deletes its Secret", who)
		return
	}
	s.putSecret(t, who, leads)
}

func (s *sequence) putSecret(t *rapid.T, who *tenant, leads string) {
	t.Helper()
	text := "clouds: {mine: {}}"
	if leads != "nowhere" {
		text = harness.CloudsOf(s.t, s.clouds, leads, nil)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName, Annotations: map[string]string{"leads-to": leads}},
		StringData: map[string]string{"clouds.yaml": text},
	}
	secrets := who.kube.CoreV1().Secrets(who.name)
	_, err := secrets.Create(s.ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(s.ctx, secret, metav1.UpdateOptions{})
	}
	took(t, err, "%s has its Secret lead to %s", who, leads)
}

func (s *sequence) deleteNamespace(t *rapid.T) { s.endNamespace(t, s.who(t)) }

// endNamespace deletes a namespace whose Secret leads to the right project: without, its Networks would wait for 20
// minutes.
func (s *sequence) endNamespace(t *rapid.T, who *tenant) {
	t.Helper()
	here := s.look(t)[who.name]
	if !here.lives() {
		return
	}
	inCloud := func(n cloudteamv1.Network) bool { return n.Spec.Cloud != nil }
	if slices.ContainsFunc(here.networks, inCloud) && !here.secret {
		s.putSecret(t, who, otherCloud)
		s.await(t, patience, func() error {
			here := s.look(t)[who.name]
			for _, n := range here.networks {
				if inCloud(n) && n.DeletionTimestamp == nil && !ready(n.Status.ResourceStatus, n.Generation) && !s.stuck(here, &n) {
					return fmt.Errorf("Network %s does not use its Secret: %+v", n.Name, n.Status.Conditions)
				}
			}
			return nil
		})
	}
	s.dropStays(t, who, here)
	err := s.Kube.CoreV1().Namespaces().Delete(s.ctx, who.name, metav1.DeleteOptions{})
	took(t, err, "the namespace of %s is deleted", who)
}

// dropStays takes off the finalizers that are a tenant's own.
func (s *sequence) dropStays(t *rapid.T, who *tenant, here *place) {
	t.Helper()
	for _, set := range here.sets {
		if len(set.Finalizers) == 0 || !strings.HasPrefix(set.Name, "forged-") {
			continue
		}
		_, err := s.Kube.AppsV1().ReplicaSets(who.name).Patch(s.ctx, set.Name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			expect.NoError(t, err)
		}
	}
}

func (s *sequence) openNamespace(t *rapid.T) {
	who, labelled := s.who(t), rapid.IntRange(0, 3).Draw(t, "labelled") > 0
	err := s.world.openNamespace(s.ctx, who.name, labelled)
	took(t, err, "the namespace of %s is opened, labelled: %t", who, labelled)
}

func (s *sequence) labelNamespace(t *rapid.T) {
	who, labelled := s.who(t), rapid.Bool().Draw(t, "labelled")
	var value any
	if labelled {
		value = cloudteamv1.LabelNetworksEnabled
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": map[string]any{cloudteamv1.LabelNetworks: value}},
	})
	expect.NoError(t, err)
	_, err = s.Kube.CoreV1().Namespaces().Patch(
		s.ctx, who.name, types.MergePatchType, patch, metav1.PatchOptions{})
	took(t, err, "the namespace of %s is labelled: %t", who, labelled)
}
