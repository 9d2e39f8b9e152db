package kubectl

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/tools/pager"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/bundle"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/doctor"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/redact"
	"cloudteam.ztgame.com/network-controller/internal/version"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// partTime bounds a read, and workTime what takes many.
	partTime, workTime = 30 * time.Second, 2 * time.Minute
	// maxPods bounds the Pods of a program whose logs are read, maxLines and maxLog (bytes) each log, and maxAnswers the
	// objects that are explained.
	maxPods, maxLines, maxLog, maxAnswers = 20, 20_000, 4 << 20, 25
	// agentNamespace is where the node agents are, and agentPort where one serves its metrics by default.
	agentNamespace, agentPort = "network-agent", 9479
	// maxAhead is how far ahead of the user's clock an Event may be. Those who write Events choose their time.
	maxAhead = 10 * time.Minute

	kindEvent = "Event"
)

// collector is one run of kubectl network bundle.
type collector struct {
	*factory
	everywhere       bool
	path, cloud, uid string
	since, timeout   time.Duration
	namespace        string
	cluster          *ask.Cluster
	archive          bundle.Archive
	// objects are ours, asked those that why is asked about, and about all in the archive.
	objects []kinds.Object
	asked   []ask.Object
	about   map[ask.Object]bool
}

func (f *factory) bundle() *cobra.Command {
	b := &collector{factory: f, about: map[ask.Object]bool{}}
	c := &cobra.Command{
		Use:   "bundle",
		Short: "Collect in one file, without secrets, what a request for support needs",
		Long: `bundle writes one file, network-bundle-DATE.tar.gz, to attach to a request for support. It changes nothing.

The file has what doctor says; the objects of the namespace (-n) or of all (-A), with their conditions and Events; what
why says of those that are not Ready; the Pods, Deployments, StatefulSets and Services on the Networks; logs and metrics
of the controller and the node agents; and, with --cloud or OS_CLOUD, what plan says of each object. Read its index.txt
first.

No Secret and no ConfigMap is read. What looks like a password, a token or a key in the rest is replaced by [redacted].
Names, addresses and ids stay: look through the file before you send it.

What you may not read is missing, and the file says so: an administrator collects most. Ctrl-C ends the collection, and
writes what there is.`,
		Example: `  # For one namespace:
  kubectl network bundle -n shop

  # All namespaces, the last two hours, with what would be done in Neutron:
  kubectl network bundle -A --since 2h --cloud mycloud`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return b.run(c.Context()) },
	}
	c.Flags().StringVarP(&b.path, "file", "o", "", "File to write. The default is network-bundle-DATE.tar.gz")
	c.Flags().BoolVarP(&b.everywhere, "all-namespaces", "A", false, "The objects of all namespaces")
	c.Flags().DurationVar(&b.since, "since", 24*time.Hour, "How old logs and Events may be")
	c.Flags().DurationVar(&b.timeout, "timeout", 5*time.Minute, "How long the collection may take")
	c.Flags().StringVar(&b.uid, "cluster-uid", "", "UID of the namespace kube-system, if you may not read it")
	f.cloudFlag(c, &b.cloud)
	return c
}

func (b *collector) run(ctx context.Context) (err error) {
	if b.since < time.Second {
		return fmt.Errorf("--since %s: write 1s or more", b.since)
	}
	if b.namespace, b.cluster, err = b.where(b.everywhere); err != nil {
		return err
	}
	cloud, unknown := b.neutron(b.cloud)
	if unknown != nil && b.cloud != "" {
		return unknown
	}
	now := b.now().UTC()
	path := cmp.Or(b.path, "network-bundle-"+now.Format("20060102T150405Z")+".tar.gz")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%w: name another file with -o", err)
	}
	b.archive.Says = []string{
		fmt.Sprintf("kubectl-network %s wrote this at %s, about %s. Logs and Events are of the last %s.", version.Version,
			now.Format(time.RFC3339), cmp.Or(b.namespace, "all namespaces"), duration.HumanDuration(b.since)),
		"Read doctor.txt, why.txt and events.txt first.",
	}
	b.collect(ctx, cloud, unknown)
	if err := errors.Join(b.archive.Write(file, now), file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.Out, "%s\nWrote %s (%d KiB). Look through it before you send it.\n", b.archive.Index(), path,
		(info.Size()+1023)>>10)
	return err
}

// collect collects all parts. unknown is why nobody knows the cloud of OS_CLOUD.
func (b *collector) collect(ctx context.Context, cloud *client.Cloud, unknown error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	b.part(ctx, workTime, "what doctor says", func(ctx context.Context, c *ask.Cluster) error {
		checks := doctor.Run(ctx, c, doctor.Options{
			Cloud: cloud, ClusterUID: b.uid, Version: version.Version, Now: b.now(), Ahead: b.ahead})
		return b.print("doctor.txt", &checks, func(f *factory) error { return f.printChecks(checks) })
	})
	for _, kind := range bundled() {
		b.part(ctx, partTime, "objects of the kind "+kind, func(ctx context.Context, c *ask.Cluster) error {
			all, err := b.list(ctx, c, kind, b.namespace, usesNetworks)
			return errors.Join(err, b.archive.AddObjects(false, all))
		})
	}
	b.part(ctx, partTime, "conditions", b.conditions)
	b.part(ctx, workTime, "what why says", b.explain)
	pods := slices.Concat(b.programs(ctx, why.ControllerNamespace), b.programs(ctx, agentNamespace))
	b.part(ctx, workTime, "Events", b.events)
	b.part(ctx, workTime, "what plan says", func(ctx context.Context, c *ask.Cluster) error {
		if unknown == nil {
			unknown = requireCloud("a plan needs Neutron", cloud)
		}
		if unknown != nil {
			return unknown
		}
		goes := func(obj kinds.Object) bool { return obj.GetDeletionTimestamp() != nil }
		plan, err := planOf(ctx, c, cloud, slices.DeleteFunc(b.objects, goes), b.uid, nil)
		return errors.Join(err, b.print("plan.txt", &plan, func(f *factory) error { return plan.print(f) }))
	})
	for _, pod := range pods { // last: nodes that do not answer take all the time that there is
		b.program(ctx, pod)
	}
}

// bundled are the kinds whose objects are collected.
func bundled() (all []string) {
	for _, kind := range kinds.All {
		all = append(all, kind.Name)
	}
	return append(all, why.KindNetworkClass, why.KindPod, why.KindDeployment, why.KindStatefulSet, why.KindService)
}

// usesNetworks reports whether an object is ours, or of one that uses Networks.
func usesNetworks(object runtime.Object) bool {
	switch o := object.(type) {
	case *corev1.Pod:
		return consumer.UsesNetworks(o)
	case *appsv1.Deployment:
		return consumer.Declares(o.Spec.Template.Annotations)
	case *appsv1.StatefulSet:
		return consumer.Declares(o.Spec.Template.Annotations)
	case *corev1.Service:
		return o.Annotations[cloudteamv1.AnnotationFloatingIP] != "" || consumer.AsksForEndpoints(o)
	}
	return true
}

// runsProgram reports whether a Pod in one of our namespaces runs a program of this project.
func runsProgram(object runtime.Object) bool {
	return slices.ContainsFunc(object.(*corev1.Pod).Spec.Containers,
		func(c corev1.Container) bool { return bundle.Program(c.Name) })
}

// part collects a part. If that fails, the part is missing, and the rest may be enough.
func (b *collector) part(
	ctx context.Context, limit time.Duration, what string, collect func(context.Context, *ask.Cluster) error,
) {
	_, _ = fmt.Fprintf(b.ErrOut, "Collecting %s.\n", what)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := *b.cluster
	if err := collect(ctx, &c); err != nil {
		c.Note("%v", err)
	}
	for _, note := range c.Notes {
		b.archive.Miss(what + ": " + note)
	}
}

// print adds what a command prints for people of a value, which is cleaned first.
func (b *collector) print(path string, value any, print func(*factory) error) error {
	var out strings.Builder
	to := *b.factory
	to.Out = &out
	err := b.archive.Clean(value)
	if err == nil {
		err = print(&to)
		b.archive.Add(path, out.String())
	}
	return err
}

// list gives the objects of a kind that are wanted, in pages. After an error, it gives those before it.
func (b *collector) list(
	ctx context.Context, c *ask.Cluster, kind, namespace string, wanted func(runtime.Object) bool,
) (all []kinds.Object, err error) {
	page := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return listOf(ctx, c, kind, namespace, o)
	}
	err = pager.New(page).EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		if object, is := item.(kinds.Object); is && wanted(item) {
			b.remember(kind, object)
			all = append(all, object)
		}
		return nil
	})
	return all, err
}

// remember notes what other parts ask about an object.
func (b *collector) remember(kind string, object kinds.Object) {
	of, waits := ask.New(kind, object.GetNamespace(), object.GetName()), false
	b.about[of] = true
	if pod, is := object.(*corev1.Pod); is {
		waits = pod.Status.Phase == corev1.PodPending
	} else if ours, is := kinds.OfAny(object); is {
		b.objects = append(b.objects, object)
		waits = !meta.IsStatusConditionTrue(ours.Status(object).Conditions, cloudteamv1.ConditionReady)
	}
	if waits {
		b.asked = append(b.asked, of)
	}
}

// conditions adds those of all objects of ours.
func (b *collector) conditions(context.Context, *ask.Cluster) error {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, obj := range b.objects {
		for _, said := range kinds.OfObject(obj).Status(obj).Conditions {
			_, _ = fmt.Fprintf(table, "%s\t%s=%s\t%s\t%s\t%s\n", ask.Of(obj), said.Type, said.Status, said.Reason,
				said.LastTransitionTime.UTC().Format(time.RFC3339), text.Plain(said.Message))
		}
	}
	err := table.Flush()
	b.archive.Add("conditions.txt", out.String())
	return err
}

// explain adds what why says of objects that are not Ready, and of Pods that wait.
func (b *collector) explain(ctx context.Context, c *ask.Cluster) error {
	var out strings.Builder
	if more := len(b.asked) - maxAnswers; more > 0 {
		c.Note("nobody asked about %d more objects", more)
	}
	for _, of := range b.asked[:min(len(b.asked), maxAnswers)] {
		one := *b.cluster // each answer has its own notes
		answer, err := why.Explain(ctx, &one, of, b.now())
		if err == nil {
			err = errors.Join(b.archive.Clean(&answer), why.Print(&out, answer, text.Style{}, b.now()))
		}
		if err != nil {
			c.Note("%v", err)
		}
		out.WriteString("\n")
	}
	b.archive.Add("why.txt", strings.TrimSpace(out.String()))
	return nil
}

// outputs are the reasons of Events that quote what containers print.
var outputs = []string{"Unhealthy", "ProbeWarning", "FailedPostStartHook", "FailedPreStopHook"}

// events adds the Events about what was collected, the last one first.
func (b *collector) events(ctx context.Context, c *ask.Cluster) error {
	lines := map[string]string{} // by time and name
	namespaces := []string{b.namespace}
	if b.namespace != metav1.NamespaceAll {
		namespaces = append(namespaces, why.ControllerNamespace, agentNamespace)
	}
	for _, namespace := range namespaces {
		_, err := b.list(ctx, c, kindEvent, namespace, func(item runtime.Object) bool {
			e := item.(*corev1.Event)
			of := ask.New(e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name)
			last, count := ask.Seen(*e)
			if age := b.now().Sub(last.Time); !b.about[of] || age > b.since || age < -maxAhead {
				return false
			}
			if slices.Contains(outputs, e.Reason) {
				e.Message = redact.Placeholder
			}
			at := last.UTC().Format(time.RFC3339)
			lines[at+e.Namespace+e.Name] = text.Plain(fmt.Sprintf("%s %s %s %s (%d times): %s", at, e.Type, of, e.Reason, count,
				e.Message)) + "\n"
			return false
		})
		if err != nil {
			c.Note("%v", err)
		}
	}
	var out strings.Builder
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(lines))) {
		out.WriteString(lines[key])
	}
	b.archive.Add("events.txt", out.String())
	return nil
}

// programs adds the Pods of a namespace of ours, and gives those whose logs and metrics are read, with trouble first.
func (b *collector) programs(ctx context.Context, namespace string) (all []kinds.Object) {
	b.part(ctx, partTime, "Pods of "+namespace, func(ctx context.Context, c *ask.Cluster) (err error) {
		all, err = b.list(ctx, c, why.KindPod, namespace, runsProgram)
		slices.SortStableFunc(all, func(x, y kinds.Object) int { return trouble(y.(*corev1.Pod)) - trouble(x.(*corev1.Pod)) })
		if len(all) > maxPods {
			c.Note("of %d Pods, the logs and metrics of %d are missing", len(all), len(all)-maxPods)
		}
		return errors.Join(err, b.archive.AddObjects(true, all))
	})
	return all[:min(len(all), maxPods)]
}

// program adds the logs and metrics of a Pod of ours.
func (b *collector) program(ctx context.Context, object kinds.Object) {
	pod, port := object.(*corev1.Pod), int32(agentPort)
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if !bundle.Program(container.Name) {
			continue
		}
		b.log(ctx, pod, container.Name, false)
		for _, p := range container.Ports {
			if p.Name == "http" {
				port = p.ContainerPort
			}
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if bundle.Program(status.Name) && status.LastTerminationState.Terminated != nil {
			b.log(ctx, pod, status.Name, true)
		}
	}
	b.part(ctx, partTime, "metrics of Pod "+pod.Name, func(ctx context.Context, c *ask.Cluster) error {
		metrics, err := b.metrics(ctx, c.Kubernetes, pod, port)
		if err == nil {
			b.archive.Add("metrics/"+pod.Name+".txt", metrics, "secret") // a label, with the name of one
		}
		return err
	})
}

// trouble is how much a Pod of ours is of interest: it is not ready, or was started again.
func trouble(pod *corev1.Pod) (of int) {
	for _, status := range pod.Status.ContainerStatuses {
		if of += int(status.RestartCount); !status.Ready {
			of += 1000
		}
	}
	return of
}

// log adds the end of a container's log, or of its log before it was started again.
func (b *collector) log(ctx context.Context, pod *corev1.Pod, container string, previous bool) {
	name := container
	if previous {
		name += ".previous"
	}
	what := fmt.Sprintf("log of Pod %s, %s", pod.Name, name)
	b.part(ctx, partTime, what, func(ctx context.Context, c *ask.Cluster) error {
		options := &corev1.PodLogOptions{Container: container, Previous: previous, TailLines: new(int64(maxLines)),
			LimitBytes: new(int64(4 * maxLog)), SinceSeconds: new(int64(b.since.Seconds()))}
		content, err := c.Kubernetes.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
		if err != nil {
			return err // content is what the API server says
		}
		if more := len(content) - maxLog; more > 0 { // from the beginning of a line
			c.Note("the first %d KiB are missing", more>>10)
			_, content, _ = bytes.Cut(content[more:], []byte("\n"))
		}
		b.archive.Add(fmt.Sprintf("logs/%s/%s.log", pod.Name, name), string(content))
		return nil
	})
}
