package doctor

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// The labels by which the controller's Pod and Deployment are known.
const (
	nameLabel    = "app.kubernetes.io/name"
	versionLabel = "app.kubernetes.io/version"
)

// versions compares the versions of this program, of the controller that holds the Lease, and of the nodes' agents.
// leaseIs says whether the user may know the holder.
func (d doctor) versions(holder string, leaseIs ask.Presence, nodes []corev1.Node) Check {
	c := Check{Name: "versions", State: OK, Says: "kubectl network " + d.Version}
	agents := agentVersions(nodes)
	if len(agents) > 0 {
		c.Says += ", node agents " + strings.Join(agents, " and ")
	}
	switch {
	case leaseIs == ask.Hidden:
		return c.unseen(c.Says + "; you may not read the controller's Lease")
	case holder == "":
		return c.is(Unknown, c.Says+"; no controller holds the Lease", "kubectl -n network-controller get pods")
	}
	host, _, _ := strings.Cut(holder, "_") // no hostname has one
	of := ask.New("Pod", why.ControllerNamespace, host)
	pod, is := ask.Get(d.ctx, d.Cluster, of, d.Kubernetes.CoreV1().Pods(of.Namespace).Get)
	switch is {
	case ask.Hidden:
		return c.unseen(c.Says + "; you may not read the controller's " + of.String())
	case ask.Absent:
		return c.is(Unknown, c.Says+"; the controller on "+host+" is no Pod of namespace "+of.Namespace,
			"Run network-controller --version there.")
	}
	runs, image := d.versionOf(pod)
	if runs == "" {
		return c.is(Unknown, c.Says+"; the controller's image "+image+" names no version",
			"Give the image a tag with its version (docs/install.md#install).")
	}
	c.Says += ", controller " + runs + " (" + of.String() + ")"
	switch {
	case !sameVersion(runs, d.Version):
		c.State = Warns
		c.Remedy = "Install or build kubectl network " + runs + " (docs/kubectl-network.md#install)"
		if !newer(runs, d.Version) {
			c.Remedy += ", or upgrade the controller (docs/install.md#upgrade)"
		}
		c.Remedy += "."
	case slices.ContainsFunc(agents, func(v string) bool { return !sameVersion(v, runs) }):
		c.State, c.Remedy = Warns, "Bring the node agents to "+runs+" (docs/install.md#upgrade)."
	}
	return c
}

// agentVersions are those of the nodes' agents.
func agentVersions(nodes []corev1.Node) []string {
	all := map[string]bool{}
	for _, node := range nodes {
		if of := node.Annotations[cloudteamv1.AnnotationDataplaneVersion]; of != "" {
			all[of] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// versionOf is the version that a Pod of the controller runs, and its image. The version is empty if nothing tells it.
func (d doctor) versionOf(pod *corev1.Pod) (runs, image string) {
	for i, c := range pod.Spec.Containers {
		if i == 0 || c.Name == "controller" {
			image = c.Image
		}
	}
	if tag := tagOf(image); isVersion(tag) {
		return tag, image
	}
	if label := pod.Labels[versionLabel]; label != "" {
		return label, image
	}
	if strings.Contains(image, "@") { // a digest tells no version, but the chart that set it has one
		of := ask.New("Deployment", pod.Namespace, pod.Labels[nameLabel])
		deployment, is := ask.Get(d.ctx, d.Cluster, of, d.Kubernetes.AppsV1().Deployments(of.Namespace).Get)
		if is == ask.There {
			return deployment.Labels[versionLabel], image
		}
	}
	return "", image
}

// tagOf is the tag of an image; empty for none.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

// isVersion reports whether a tag names a version: a release, or what git describe gives for a commit after it.
func isVersion(tag string) bool {
	_, err := version.ParseSemantic(tag)
	return err == nil
}

// sameVersion compares versions with or without their v.
func sameVersion(a, b string) bool { return strings.TrimPrefix(a, "v") == strings.TrimPrefix(b, "v") }

// newer reports whether a is a newer version than b.
func newer(a, b string) bool {
	of, err := version.ParseSemantic(a)
	if err != nil {
		return false
	}
	order, err := of.Compare(b)
	return err == nil && order > 0
}
